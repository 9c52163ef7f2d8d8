package store

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/internal/row"
)

// replay is the state that the effects of all commands lead to. It knows nothing else of the store.
type replay struct {
	said     []said // in order
	lines    map[row.Position]replayedLine
	sizes    map[uint64]uint32 // by batch: its lines
	separate map[uint64]bool   // by batch
	batches  map[uint64]*job.Counts
	queues   map[uint32]*job.Counts
	runners  map[uint64]string // by claim
	sweeps   map[uint64]job.Op // by seq
}

// replayedLine is the state of a line. claim is 0 unless it is active.
type replayedLine struct {
	status job.Status
	queue  uint32
	claim  uint64
	moved  uint64 // the last command that moved it
}

func newReplay() *replay {
	return &replay{lines: map[row.Position]replayedLine{}, sizes: map[uint64]uint32{}, separate: map[uint64]bool{}, batches: map[uint64]*job.Counts{}, queues: map[uint32]*job.Counts{},
		runners: map[uint64]string{}, sweeps: map[uint64]job.Op{}}
}

// follow adds the effects of a command. at is the time of the command in the store. It returns an error if the effects do not continue
// the earlier ones, or do not fit the command.
func (r *replay) follow(st *step, at int64, effects []row.Effect) error {
	switch cmd := st.cmd.(type) {
	case *job.Create:
		r.separate[st.seq] = cmd.Joined || cmd.Lines() == 1
	case job.Complete:
		r.separate[st.seq] = true // the batch of the jobs that follow
	case job.Claim:
		r.runners[st.seq] = cmd.Runner
	case job.Move:
		if cmd.Job.IsZero() {
			r.sweeps[st.seq] = cmd.Op
		}
	}
	if len(effects) > 0 {
		r.said = append(r.said, said{row.Cause{Now: job.Now{Seq: st.seq, At: at}, Verb: st.cmd.Verb(), By: st.by.Name}, effects})
	}
	for i := range effects {
		e := &effects[i]
		if err := r.fits(st, e); err != nil {
			return fmt.Errorf("effect %+v of %d: %w", *e, st.seq, err)
		}
		r.add(st.seq, e)
	}
	return nil
}

// fits checks an effect of a command against the command and the state so far.
func (r *replay) fits(st *step, e *row.Effect) error {
	if (e.Before != 0) != (r.separate[e.Run.Batch] && e.From != 0) || e.From == 0 && e.Run.Batch != st.seq {
		return fmt.Errorf("the batch is separate: %v", r.separate[e.Run.Batch])
	}
	if (e.Claim != 0) != e.OfRun() || e.Runner != r.runners[e.Claim] {
		return fmt.Errorf("it is of a run: %v, and the claim is of runner %q", e.OfRun(), r.runners[e.Claim])
	}
	if e.Sweep == 0 && e.Reason == job.ReasonRedriven {
		if move, ok := st.cmd.(job.Move); !ok || move.Job.IsZero() {
			return fmt.Errorf("only a sweep redrives several jobs")
		}
	} else if e.Sweep != 0 && e.Reason != job.ReasonPurged && model.SweepReasons[e.Reason] != r.sweeps[e.Sweep] {
		return fmt.Errorf("the sweep is to %v", r.sweeps[e.Sweep])
	}
	for line := e.Run.First; line <= e.Run.Last; line++ {
		was := r.lines[row.Position{e.Run.Batch, line}]
		if e.Before != 0 && e.Before != was.moved || was.status != e.From || e.From != 0 && was.queue != e.Queue || e.From == job.Active && e.To != job.Active && was.claim != e.Claim {
			return fmt.Errorf("line %d was %+v", line, was)
		}
		if want := byOfLine(st, int(line)); e.From == 0 && cmp.Or(e.By, st.by.Name) != want || e.From != 0 && e.By != "" {
			return fmt.Errorf("the key of line %d is %q", line, want)
		}
	}
	return nil
}

// byOfLine returns the key that created a line, if the command is a create; otherwise the command's.
func byOfLine(st *step, line int) string {
	if create, ok := st.cmd.(*job.Create); ok {
		for i := range create.Groups {
			if line -= create.Groups[i].Lines; line < 0 {
				return cmp.Or(create.Groups[i].By, st.by.Name)
			}
		}
	}
	return st.by.Name
}

// add counts an effect that fits.
func (r *replay) add(seq uint64, e *row.Effect) {
	b, q := r.batches[e.Run.Batch], r.queues[e.Queue]
	if b == nil {
		b = &job.Counts{}
		r.batches[e.Run.Batch] = b
	}
	if q == nil {
		q = &job.Counts{}
		r.queues[e.Queue] = q
	}
	now := replayedLine{status: e.To, queue: e.Queue, moved: seq}
	if e.To == job.Active {
		now.claim = e.Claim
	}
	for line := e.Run.First; line <= e.Run.Last; line++ {
		r.lines[row.Position{e.Run.Batch, line}] = now
	}
	n := int64(e.Run.Lines())
	if e.From == 0 {
		r.sizes[e.Run.Batch] += uint32(n)
	} else {
		b[e.From] -= n
		q[e.From] -= n
	}
	b[e.To] += n
	if e.To != job.Purged { // queues do not count purged jobs
		q[e.To] += n
	}
}

// compare compares the replay with the jobs, batches and queues of a store after a commit, and the rows of effects with the commands
// that were followed.
func (r *replay) compare(s *Store) error {
	h := historyOf(s)
	for seq, b := range r.batches {
		left := row.ReadBatch(h.rows, seq)
		if left == nil {
			if *b != (job.Counts{job.Purged: int64(r.sizes[seq])}) {
				return fmt.Errorf("batch %d is deleted, and by its effects has jobs %v", seq, *b)
			}
			continue
		}
		if left.Counts != *b {
			return fmt.Errorf("batch %d counts %v, and its effects lead to %v", seq, left.Counts, *b)
		}
		if err := r.compareLines(h, left); err != nil {
			return fmt.Errorf("batch %d: %w", seq, err)
		}
	}
	for id, counts := range r.queues {
		var got job.Counts
		if q := s.machine.AllQueues.ByID[id]; q != nil {
			got = q.Counts
		}
		if got != *counts {
			return fmt.Errorf("queue %d counts %v, and its effects lead to %v", id, got, *counts)
		}
	}
	return r.compareHistory(h)
}

// compareLines compares the spans of a batch with the replay.
func (r *replay) compareLines(h *history, b *row.Batch) (err error) {
	row.EachSpan(h.rows, b.Seq, 0, b.Lines-1, func(sp row.Span) bool {
		for line := sp.First; line <= sp.Last; line++ {
			got := r.lines[row.Position{b.Seq, line}]
			moved := uint64(0)
			if r.separate[b.Seq] && got.status != job.Purged && got.moved != b.Seq {
				moved = got.moved
			}
			if got.status != sp.Status || sp.Status == job.Active && got.claim != sp.Claim || moved != sp.Moved {
				err = fmt.Errorf("lines %d-%d are %+v, and by the effects line %d is %+v", sp.First, sp.Last, sp, line, got)
			}
		}
		return err == nil
	})
	return err
}

// compareHistory compares the rows with the commands from the oldest segment onwards, all of them and batch by batch.
func (r *replay) compareHistory(h *history) error {
	all := h.all()
	first, _ := slices.BinarySearchFunc(r.said, h.oldest, func(c said, seq uint64) int { return cmp.Compare(c.Seq, seq) })
	if want := r.said[first:]; len(all) != len(want) {
		return fmt.Errorf("from %d the store has the effects of %d commands of %d", h.oldest, len(all), len(want))
	}
	found := map[row.Position][]said{} // of a batch at its line 0, but of each line of a separate batch
	for i, got := range all {
		if want := r.said[first+i]; !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the effects of %d are %+v, and were %+v", got.Seq, got, want)
		}
		for _, e := range got.effects {
			lines := e.Run
			if !r.separate[e.Run.Batch] {
				lines.First, lines.Last = 0, 0
			}
			for line := lines.First; line <= lines.Last; line++ {
				at := row.Position{e.Run.Batch, line}
				of := found[at]
				if n := len(of); n == 0 || of[n-1].Seq != got.Seq {
					of = append(of, said{Cause: got.Cause})
				}
				of[len(of)-1].effects = append(of[len(of)-1].effects, e)
				found[at] = of
			}
		}
	}
	for at, want := range found {
		var got []said
		if r.separate[at.Seq] {
			last := want[len(want)-1].Seq
			if sp, ok := row.ReadSpan(h.rows, at.Seq, at.Line); ok && sp.Status != job.Purged { // nothing names the last command of a deleted job
				last = cmp.Or(sp.Moved, at.Seq)
			}
			got = h.byChain(at, last)
		} else {
			got = h.byIndex(at.Seq)
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("the effects of %+v are %+v, and were found as %+v", at, want, got)
		}
	}
	return nil
}
