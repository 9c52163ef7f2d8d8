package model

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// Seen reports how much of its work a store did in a command, since the rules leave that to the store.
type Seen struct {
	Effects []applied.Effect // of the command
	// These report whether the store has a session, whether a reader finds a batch with attributes, and whether a sweep still
	// runs.
	Session, Batch, Sweep func(id job.ID) bool
	// Distinct returns, for a strategy of prefer_distinct, its keys in the order of the levels of its index, and the
	// keys whose active jobs no index counts. Claims then take all jobs that they can. If it is nil, claims may take
	// fewer jobs than they can, and claims of prefer_distinct may choose among the values of its keys.
	Distinct func(s job.Strategy) (levels, uncounted []string)
}

// Move is the move of one job by a command.
type Move struct {
	ID  job.ID
	Why job.Reason
}

// violation says which rule a store has broken.
type violation string

// Moves returns the jobs of effects, except jobs that the command made.
func (m *Model) Moves(effects []applied.Effect) []Move {
	moves := []Move{}
	for _, e := range effects {
		b := m.batchOf(e.Run.Batch)
		for line := e.Run.First; b != nil && line <= e.Run.Last; line++ {
			moves = append(moves, Move{b.ID.WithLine(int(line)), e.Reason})
		}
	}
	return moves
}

func (m *Model) batchOf(seq uint64) *Batch {
	for _, b := range m.Batches {
		if b.Seq == seq {
			return b
		}
	}
	return nil
}

// Compare carries out a command that a store has applied with the result got. It returns an error if the rules do not
// allow the result, or the moves that the store made.
func (m *Model) Compare(seq uint64, at int64, by *job.Actor, cmd job.Command, got applied.Result, seen *Seen) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case violation:
			err = errors.New(string(r))
		default:
			panic(r)
		}
	}()
	m.seen, m.By = seen, by
	defer func() { m.seen, m.took, m.spared, m.By = nil, nil, nil, &job.Actor{} }()
	if c, ok := got.(*applied.Claimed); ok {
		got = Shown(c)
	}
	moves := m.Moves(seen.Effects)
	_, tick := cmd.(job.Tick)
	if tick {
		m.begin(seq, at, cmd)
		if err := m.inTime(moves); err != nil {
			return err
		}
		if err := m.expireSessions(seen.Session); err != nil {
			return err
		}
	}
	if c, ok := got.(*applied.Claimed); ok && seen.Distinct == nil {
		m.took = &took{moves: moves}
		for _, r := range c.Runs {
			for line := r.First; line <= r.Last; line++ {
				m.took.jobs = append(m.took.jobs, m.batchOf(r.Batch).ID.WithLine(int(line)))
			}
		}
	}
	want := m.apply(seq, at, cmd, moves)
	for _, id := range m.spared {
		if seen.Sweep(id) {
			return fmt.Errorf("sweep %v is under way, but did not take a job that was returned in this tick", id)
		}
	}
	if err := m.forgetSubmissions(seen.Batch, tick); err != nil {
		return err
	}
	switch w := want.(type) {
	case *applied.Claimed:
		want = m.inOrderOf(Shown(w), got.(*applied.Claimed))
	case *applied.Swept:
		if w.Refusal == job.Granted {
			if !sweptFits(w, got.(*applied.Swept), cmd.(job.Move)) {
				return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
			}
			want = got
		}
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
	}
	for _, w := range m.Sweeps {
		if !w.Ended && !seen.Sweep(w.ID) {
			if left := m.Targets(w); len(left) > 0 {
				return fmt.Errorf("sweep %v %+v has ended without taking %v", w.ID, w.Move, left)
			}
			w.Ended = true
		}
	}
	return nil
}

// Shown returns the part of a claim's result that every caller sees.
func Shown(c *applied.Claimed) *applied.Claimed {
	t := &applied.Claimed{Claim: c.Claim, Seq: c.Seq, LeaseMs: c.LeaseMs, Runs: c.Runs, Replayed: c.Replayed, Refusal: c.Refusal}
	if t.Replayed { // a tickle may have changed its lease
		t.LeaseMs = 0
	}
	return t
}

// inOrderOf returns a claim of the model with its jobs in the store's order, if they are the same jobs.
func (m *Model) inOrderOf(want, got *applied.Claimed) *applied.Claimed {
	sorted := func(runs []applied.Run) (joined []applied.Run) {
		runs = slices.Clone(runs)
		slices.SortFunc(runs, func(a, b applied.Run) int {
			return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.First, b.First))
		})
		for _, r := range runs {
			if last := len(joined) - 1; last >= 0 && joined[last].Batch == r.Batch && joined[last].Last+1 == r.First {
				joined[last].Last = r.Last
			} else {
				joined = append(joined, r)
			}
		}
		return joined
	}
	c := m.Claims[want.Claim]
	if c == nil || c.Seq != m.Seq || !slices.Equal(sorted(want.Runs), sorted(got.Runs)) {
		return want
	}
	c.Handed = c.Handed[:0]
	for _, r := range got.Runs {
		c.Handed = append(c.Handed, m.batchOf(r.Batch).Lines[r.First:r.Last+1]...)
	}
	if want.Runs = got.Runs; c.begun != nil {
		c.beginFirst(c.begins)
	}
	return want
}

// sweptFits compares the result of the first step of a sweep with the model's. The step may or may not notice that it was
// the last one.
func sweptFits(want, got *applied.Swept, move job.Move) bool {
	if want.Status != 0 && (got.Status != want.Status || got.Moved != want.Moved) {
		return false
	}
	return got.Moved == want.Moved && (got.Skipped == 0 || move.Op == job.Redrive) && got.Refusal == job.Granted && (want.Sweep == got.Sweep || want.Sweep.IsZero())
}

// inTime checks that a tick makes jobs pending, and purges them, in the order of time, except for retries of jobs that it
// abandoned itself.
func (m *Model) inTime(moves []Move) error {
	moved := map[job.ID]job.Reason{}
	for _, e := range moves {
		if moved[e.ID] == 0 {
			moved[e.ID] = e.Why
		}
	}
	for _, status := range []job.Status{job.Deferred, job.Completed} {
		latest, earliest := int64(0), int64(0)
		for id, j := range m.Jobs {
			when := m.Due(j)
			if when == 0 || when > m.dueAt || (status == job.Deferred) != (j.Status == job.Deferred) || status != job.Deferred && !j.Status.Terminal() {
				continue
			}
			if why := moved[id]; why == job.ReasonDue || why == job.ReasonExpired || why == job.ReasonPurged {
				latest = max(latest, when)
			} else if why == 0 && (earliest == 0 || when < earliest) {
				earliest = when
			}
		}
		if earliest != 0 && earliest < latest {
			return fmt.Errorf("a tick did work that was due at %d before work that was due at %d", latest, earliest)
		}
	}
	return nil
}
