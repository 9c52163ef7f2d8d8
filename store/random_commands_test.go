package store

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

var (
	seedsFlag = flag.Int("seeds", 0, "how many seeds TestRandom plays; 0: 3000, or 100 with -short")
	seedFlag  = flag.Uint64("seed", 0, "play this seed of TestRandom alone")
)

// step is a command with its place in the journal, and what happens after it.
type step struct {
	seq      uint64
	at       int64
	cmd      job.Command
	commit   bool
	compare  bool // commit, and look at everything
	restart  bool // close, open and apply again what was not flushed
	flush    bool // before that
	backlogs int  // of a tick: more ticks that may follow until nothing is due
}

func (st step) String() string {
	fields, body := st.cmd.Encode()
	text := fmt.Sprintf("seq=%d at=%d %s %s", st.seq, st.at-startAt, st.cmd.Verb(), fields)
	for _, x := range []struct {
		on   bool
		name string
	}{{st.commit, "commit"}, {st.compare, "compare"}, {st.flush, "flush"}, {st.restart, "restart"}} {
		if x.on {
			text += " +" + x.name
		}
	}
	if len(body) > 0 {
		text += "\n\t" + strings.ReplaceAll(strings.TrimSuffix(string(body), "\n"), "\n", "\n\t")
	}
	return text
}

const (
	startAt     = 1_700_000_000_000
	seqStride   = 1 << 10 // room for ticks between two steps
	testJournal = "0197f1c0-1111-7abc-8def-000000000001"
)

// TestRandom plays random commands to a store and to the model, and compares all that a user can see. A failure names
// the seed and prints the shortest list of commands found that still fails.
func TestRandom(t *testing.T) {
	if *seedFlag != 0 {
		playSeed(t, *seedFlag)
		return
	}
	seeds := seedsOr(*seedsFlag, 3000, 100)
	began := time.Now()
	var next, played atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for !t.Failed() {
				seed := next.Add(1)
				if seed > seeds {
					return
				}
				playSeed(t, seed)
				played.Add(1)
			}
		})
	}
	workers.Wait()
	t.Logf("%d seeds in %v", played.Load(), time.Since(began).Round(time.Millisecond))
}

// seedsOr returns the number of seeds to play: what the flag says, or else one of two defaults.
func seedsOr(given, full, short int) uint64 {
	switch {
	case given > 0:
		return uint64(given)
	case testing.Short():
		return uint64(short)
	}
	return uint64(full)
}

func playSeed(t *testing.T, seed uint64) {
	g := newGenerator(seed)
	steps := g.steps()
	err := play(g.options, steps)
	if err == nil {
		return
	}
	steps = shrink(g.options, steps)
	shortest := play(g.options, steps)
	var list strings.Builder
	for _, st := range steps {
		fmt.Fprintln(&list, st)
	}
	t.Errorf("seed %d (again: go test ./store -run TestRandom -seed %d): %v\nshortest found, times from %d, %+v:\n%sfails with: %v",
		seed, seed, err, startAt, g.options.bounds, &list, shortest)
}

// shrink drops steps as long as the rest still fails.
func shrink(o Options, steps []step) []step {
	deadline := time.Now().Add(20 * time.Second)
	for size := len(steps) / 2; size > 0; {
		dropped := false
		for at := 0; at+size <= len(steps) && time.Now().Before(deadline); {
			fewer := slices.Concat(steps[:at], steps[at+size:])
			if play(o, fewer) != nil {
				steps, dropped = fewer, true
			} else {
				at += size
			}
		}
		if !dropped || size > len(steps) {
			size /= 2
		}
	}
	return steps
}

// player has a store and the model do the same.
type player struct {
	options Options
	s       *Store
	m       *model
	log     []step   // applied, in order
	results []Result // of log
	flushed int      // how many of log are sure to survive a restart
	handed  []handedOut
}

func play(o Options, steps []step) (err error) {
	o.FS = vfs.NewMem()
	p := &player{options: o}
	if p.s, err = Open("store", o); err != nil {
		return err
	}
	p.m = newModel(p.s.machine.seed)
	p.m.most, p.m.mostSessions = p.s.machine.rules.commandRows, p.s.machine.rules.sessions
	defer func() {
		if r := recover(); r != nil {
			stack := make([]byte, 8<<10)
			err = fmt.Errorf("panic: %v\n%s", r, stack[:runtime.Stack(stack, false)])
			return // a store that panicked within a command may not be closed in order
		}
		err = errors.Join(err, p.s.Close())
	}()
	for i, st := range steps {
		if err := p.step(st); err != nil {
			return fmt.Errorf("step %d (%v): %w", i, st, err)
		}
	}
	return errors.Join(p.compare(), p.check())
}

func (p *player) step(st step) error {
	if err := p.apply(st); err != nil {
		return err
	}
	for i := range st.backlogs {
		if err := p.commit(); err != nil {
			return err
		}
		if due := p.s.NextDue(); due == 0 || due > st.at {
			if due := p.m.nextDue(); due != 0 && due <= p.m.at {
				return fmt.Errorf("the store has nothing due at %d, the model has since %d", p.m.at, due)
			}
			break
		}
		if i == st.backlogs-1 {
			return fmt.Errorf("still due after %d ticks", st.backlogs)
		}
		again := st
		again.seq += uint64(i) + 1
		if err := p.apply(again); err != nil {
			return err
		}
	}
	switch {
	case st.restart:
		return p.restart(st.flush)
	case st.compare:
		return errors.Join(p.compare(), p.check())
	case st.commit:
		return p.commit()
	}
	return nil
}

// apply has both carry out a command in the form in which the journal gives it.
func (p *player) apply(st step) error {
	fields, body := st.cmd.Encode()
	cmd, err := job.Decode(st.cmd.Verb(), fields, body)
	if err != nil {
		return err
	}
	got, err := p.s.Apply(st.seq, st.at, cmd)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if c, ok := got.(*Claimed); ok {
		if !c.Replayed {
			p.handed = append(p.handed, handedOut{claimed: c})
		}
		got = told(c)
	}
	p.log, p.results = append(p.log, st), append(p.results, got)
	events := []event{}
	switch cmd := cmd.(type) {
	case job.Tick:
		if events, err = p.watchTick(st); err != nil {
			return err
		}
		p.m.at = max(st.at, p.m.at)
		if err := p.m.expireSessions(func(id job.ID) bool { return p.s.machine.sessionOf(id) != nil }); err != nil {
			return err
		}
	case job.Move:
		if cmd.Job.IsZero() {
			if events, _, err = p.events(st.seq); err != nil {
				return err
			}
		}
	}
	want := p.m.apply(st.seq, st.at, cmd, events)
	for _, id := range p.m.spared {
		if slices.ContainsFunc(p.s.running, func(w *sweep) bool { return w.id() == id }) {
			return fmt.Errorf("sweep %v is under way, and left a job alone that came back in this tick", id)
		}
	}
	p.m.spared = nil
	if c, ok := want.(*Claimed); ok {
		want = p.m.inOrderOf(told(c), got.(*Claimed))
	}
	if w, ok := want.(*Swept); ok && w.Refusal == job.Granted {
		if err := w.fits(got.(*Swept), cmd.(job.Move)); err != nil {
			return err
		}
		want = got
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
	}
	for _, w := range p.m.sweeps {
		if !w.ended && !slices.ContainsFunc(p.s.running, func(r *sweep) bool { return r.Seq == w.seq }) {
			if left := p.m.targets(w); len(left) > 0 {
				return fmt.Errorf("sweep %v %+v has ended, and not taken %v", w.id, w.move, left)
			}
			w.ended = true
		}
	}
	if n := len(p.handed); n > 0 && p.handed[n-1].want == nil { // of this very command
		p.handed[n-1].want = map[job.ID]job.Job{}
		for _, c := range p.m.claims {
			if c.id == p.handed[n-1].claimed.Claim {
				for _, j := range c.handed {
					p.handed[n-1].want[j.id] = p.m.document(j)
				}
			}
		}
	}
	for _, names := range [][2][]string{{}, {{"a"}, nil}, {nil, {"x", "y"}}, {{"b", "c"}, {"x"}}} {
		if got, want := p.s.Available(names[0], names[1]), len(p.m.line(names[0], names[1], false)) > 0 && !p.m.stopped; got != want {
			return fmt.Errorf("available for %v is %v, the model has %v", names, got, want)
		}
	}
	got2, all := p.s.TakeReadied()
	if all {
		got2 = nil
		for ready, client, typ := p.s.ReadyQueues("", ""); ; ready, client, typ = p.s.ReadyQueues(client, typ) {
			if got2 = append(got2, ready...); client == "" {
				break
			}
		}
	}
	want2 := p.m.takeReadied()
	slices.SortFunc(got2, func(a, b Readied) int { return strings.Compare(a.Client+"/"+a.Type, b.Client+"/"+b.Type) })
	if !slices.Equal(got2, want2) {
		return fmt.Errorf("readied %v, the model has %v", got2, want2)
	}
	return nil
}

// fits says how what a sweep's first step did differs from what the model has: whether the step noticed that it was the
// last is no promise.
func (want *Swept) fits(got *Swept, move job.Move) error {
	switch {
	case got.Moved != want.Moved, got.Skipped != 0 && move.Op != job.Redrive, got.Refusal != job.Granted, want.Sweep != got.Sweep && !want.Sweep.IsZero():
		return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
	}
	return nil
}

// inOrderOf has a claim of the model hold its jobs in the order in which the store handed them out, if they are the
// same jobs.
func (m *model) inOrderOf(want, got *Claimed) *Claimed {
	sorted := func(runs []Run) (joined []Run) {
		runs = slices.Clone(runs)
		slices.SortFunc(runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.First, b.First)) })
		for _, r := range runs {
			if last := len(joined) - 1; last >= 0 && joined[last].Batch == r.Batch && joined[last].Last+1 == r.First {
				joined[last].Last = r.Last
			} else {
				joined = append(joined, r)
			}
		}
		return joined
	}
	c := m.claims[want.Claim]
	if c == nil || c.seq != m.seq || !slices.Equal(sorted(want.Runs), sorted(got.Runs)) {
		return want
	}
	c.handed = c.handed[:0]
	for _, r := range got.Runs {
		b := m.batchOf(r.Batch)
		c.handed = append(c.handed, b.lines[r.First:r.Last+1]...)
	}
	want.Runs = got.Runs
	return want
}

// events returns what a command did to jobs by its effects, and these.
func (p *player) events(seq uint64) (events []event, effects []effect, err error) {
	if err := p.s.Commit(); err != nil {
		return nil, nil, err
	}
	if effects, err = p.effects(seq); err != nil {
		return nil, nil, err
	}
	events = []event{}
	for _, e := range effects {
		b := p.m.batchOf(e.run.Batch)
		for line := e.run.First; b != nil && line <= e.run.Last; line++ {
			events = append(events, event{b.id.WithLine(int(line)), e.reason})
		}
	}
	return events, effects, nil
}

// watchTick says what a tick did. A tick does a share of what is due, in order of time, and which share is no promise:
// so the store is asked.
func (p *player) watchTick(st step) ([]event, error) {
	events, entries, err := p.events(st.seq)
	if err != nil {
		return nil, err
	}
	moved := map[job.ID]reason{}
	for _, e := range events {
		if moved[e.id] == 0 {
			moved[e.id] = e.why
		}
	}
	cost, largest, gone := 0, 0, map[Run]bool{}
	for _, e := range entries {
		if gone[e.run] && e.reason == reasonPurged || sweepReasons[e.reason] != 0 {
			continue // abandoned for good and not to be kept; and a sweep has a bound of its own
		}
		cost += tickSpanRows
		if e.reason == reasonAbandoned || e.reason == reasonTimedOut || e.reason == reasonExpired {
			gone[e.run] = true
		}
		if e.reason == reasonAbandoned || e.reason == reasonTimedOut {
			cost += e.run.Lines()
			largest = max(largest, e.run.Lines())
		}
	}
	if most := cmp.Or(st.cmd.(job.Tick).Rows, p.s.machine.rules.commandRows) + tickSpanRows + largest; cost > most {
		return nil, fmt.Errorf("a tick wrote about %d rows, with a bound of %d", cost, most)
	}
	// What became pending or was purged is first in order of time, but for retries of what was abandoned just now.
	at := max(st.at, p.m.at)
	for _, status := range []job.Status{job.Deferred, job.Completed} {
		latest, earliest := int64(0), int64(0)
		for id, j := range p.m.jobs {
			when := p.m.due(j)
			if when == 0 || when > at || (status == job.Deferred) != (j.status == job.Deferred) || status != job.Deferred && !j.status.Terminal() {
				continue
			}
			if why := moved[id]; why == reasonDue || why == reasonExpired || why == reasonPurged {
				latest = max(latest, when)
			} else if why == 0 && (earliest == 0 || when < earliest) {
				earliest = when
			}
		}
		if earliest != 0 && earliest < latest {
			return nil, fmt.Errorf("a tick did what was due at %d before what was due at %d", latest, earliest)
		}
	}
	return events, nil
}

func (m *model) batchOf(seq uint64) *modelBatch {
	for _, b := range m.batches {
		if b.seq == seq {
			return b
		}
	}
	return nil
}

// effects reads the effects row of a command.
func (p *player) effects(seq uint64) (effects []effect, err error) {
	defer lsm.Catch(&err)
	v := p.s.db.View()
	defer v.Close()
	d := lsm.Decoder(v.Get(seqKey(effectTable, seq)))
	if len(d) == 0 {
		return nil, nil
	}
	d.Int()
	for len(d) > 0 {
		effects = append(effects, effect{Run{d.Uint(), uint32(d.Uint()), uint32(d.Uint())}, job.Status(d.Uint()), job.Status(d.Uint()), reason(d.Uint())})
	}
	return effects, nil
}

func (p *player) commit() error {
	if err := p.s.Commit(); err != nil {
		return err
	}
	got, want := p.s.NextDue(), p.m.nextDue()
	if want != 0 && (got == 0 || got > want) {
		return fmt.Errorf("next due is %d, the model has %d", got, want)
	}
	return nil
}

// restart closes the store without a flush, so that it falls back to what was flushed last, and has it apply the rest
// again.
func (p *player) restart(flush bool) error {
	if flush {
		if err := p.commit(); err != nil {
			return err
		}
		if err := p.s.db.Pebble().Flush(); err != nil {
			return err
		}
		p.flushed = len(p.log)
	}
	if err := p.s.Close(); err != nil {
		return err
	}
	var err error
	if p.s, err = Open("store", p.options); err != nil {
		return err
	}
	if p.flushed > 0 && p.s.Applied() < p.log[p.flushed-1].seq {
		return fmt.Errorf("%d is applied after a restart, and %d was flushed", p.s.Applied(), p.log[p.flushed-1].seq)
	}
	for i, st := range p.log {
		if st.seq <= p.s.Applied() {
			continue
		}
		got, err := p.s.Apply(st.seq, st.at, st.cmd)
		if err != nil {
			return fmt.Errorf("apply again: %w", err)
		}
		if c, ok := got.(*Claimed); ok {
			got = told(c)
		}
		if !reflect.DeepEqual(got, p.results[i]) {
			return fmt.Errorf("%v again: result\n\t%+v, and before\n\t%+v", st, got, p.results[i])
		}
		if i%7 == 3 {
			if err := p.s.Commit(); err != nil {
				return err
			}
		}
	}
	p.s.TakeReadied()
	return errors.Join(p.compare(), p.check())
}

func (p *player) check() error {
	var problems []error
	_, err := p.s.Check(func(problem string) bool {
		problems = append(problems, errors.New("check: "+problem))
		return len(problems) < 10
	})
	return errors.Join(append(problems, err)...)
}

// compare commits and compares everything that a user can see.
func (p *player) compare() (err error) {
	defer lsm.Catch(&err)
	if err := p.commit(); err != nil {
		return err
	}
	s, m := p.s, p.m
	if s.At() != m.at || s.Applied() != m.seq && m.seq != 0 {
		return fmt.Errorf("at %d of %d, the model at %d of %d", s.At(), s.Applied(), m.at, m.seq)
	}
	v := s.db.View()
	defer v.Close()
	var counts job.Counts
	for i, b := range m.batches {
		stored := readBatch(v, b.seq)
		if stored == nil {
			return fmt.Errorf("batch %v is missing", b.id)
		}
		docs := documentsOf(s, v, stored)
		for k, j := range b.lines {
			if j.status == job.Purged {
				continue
			}
			counts[j.status]++
			if len(docs) == 0 {
				return fmt.Errorf("job %v has no document", j)
			}
			if err := sameJob(docs[0], m.document(j)); err != nil {
				return fmt.Errorf("job %v: %w", j, err)
			}
			docs = docs[1:]
			if (i+k)%17 == 0 {
				doc, err := s.Job(j.id)
				if err != nil {
					return fmt.Errorf("read job %v: %w", j, err)
				}
				if err := sameJob(doc, m.document(j)); err != nil {
					return fmt.Errorf("job %v alone: %w", j, err)
				}
			}
		}
		if len(docs) > 0 {
			return fmt.Errorf("batch %v has documents the model has not: %+v", b.id, docs)
		}
		doc, err := s.Batch(b.id)
		if err != nil {
			return fmt.Errorf("read batch %v: %w", b.id, err)
		}
		if want := m.batchDocument(b); doc != want {
			return fmt.Errorf("batch\n\t%+v, the model has\n\t%+v", doc, want)
		}
	}
	batches := 0
	v.Scan(string(batchTable), string(batchTable+1), func(string, []byte) bool { batches++; return true })
	if batches != len(m.batches) {
		return fmt.Errorf("%d batches, the model has %d", batches, len(m.batches))
	}
	for id, j := range m.jobs {
		if j.status == job.Purged {
			if _, err := s.Job(id); !errors.Is(err, job.NotFound) {
				return fmt.Errorf("purged job %v: %v", j, err)
			}
		}
	}
	if err := p.compareHandedOut(); err != nil {
		return err
	}
	for _, c := range m.claims {
		if err := p.compareHeld(c); err != nil {
			return err
		}
	}
	if got := s.Totals(); got.Counts != counts || got.Queues != len(m.queues) {
		return fmt.Errorf("totals %+v, the model has %v in %d queues", got, counts, len(m.queues))
	}
	return errors.Join(p.compareQueues(), p.compareSessions())
}

// handedOut is a claim's result, and the documents that the model had for it then.
type handedOut struct {
	claimed *Claimed
	want    map[job.ID]job.Job
}

// told returns the part of a claim's result that everybody sees.
func told(c *Claimed) *Claimed {
	t := &Claimed{Claim: c.Claim, Seq: c.Seq, LeaseMs: c.LeaseMs, Runs: c.Runs, Replayed: c.Replayed, Refusal: c.Refusal}
	if t.Replayed { // its lease may have been tickled to another
		t.LeaseMs = 0
	}
	return t
}

// compareHandedOut reads what claims handed out since the last look: as of the claim, less what has been purged since.
func (p *player) compareHandedOut() error {
	for _, h := range p.handed {
		docs, err := p.s.HandedOut(h.claimed)
		if err != nil {
			return fmt.Errorf("handed out by %v: %w", h.claimed.Claim, err)
		}
		for _, doc := range docs {
			want, ok := h.want[doc.ID]
			if !ok {
				return fmt.Errorf("%v handed out %v, which it did not", h.claimed.Claim, doc.ID)
			}
			if _, err := p.s.Job(doc.ID); errors.Is(err, job.NotFound) { // its key went with it
				want.UniqueKey = doc.UniqueKey
			}
			// What was told in the same run since then may show already.
			doc.Attempts, want.Attempts, doc.Error, want.Error = nil, nil, "", ""
			doc.Result, want.Result, doc.Step, want.Step, doc.Progress, want.Progress = job.Result{}, job.Result{}, "", "", 0, 0
			if err := sameJob(doc, want); err != nil {
				return fmt.Errorf("job %v handed out by %v: %w", doc.ID, h.claimed.Claim, err)
			}
			delete(h.want, doc.ID)
		}
		for id := range h.want {
			if _, err := p.s.Job(id); !errors.Is(err, job.NotFound) {
				return fmt.Errorf("%v did not hand out %v, which is there: %v", h.claimed.Claim, id, err)
			}
		}
	}
	p.handed = nil
	return nil
}

func (p *player) compareHeld(c *modelClaim) error {
	var runs []Run
	for _, j := range c.handed {
		run := Run{j.batch.seq, uint32(j.id.Line()), uint32(j.id.Line())}
		if last := len(runs) - 1; last >= 0 && runs[last].Batch == run.Batch && runs[last].Last+1 == run.First {
			runs[last].Last++
		} else {
			runs = append(runs, run)
		}
	}
	docs, err := p.s.Held(&Claimed{Claim: c.id, Seq: c.seq, Runs: runs})
	if err != nil {
		return fmt.Errorf("held by %v: %w", c.id, err)
	}
	held := c.held()
	if len(docs) != len(held) {
		return fmt.Errorf("claim %v holds %d jobs, the model has %v", c.id, len(docs), held)
	}
	for i, j := range held {
		if err := sameJob(docs[i], brief(p.m.document(j))); err != nil {
			return fmt.Errorf("job %v held by %v: %w", j, c.id, err)
		}
	}
	return nil
}

// brief leaves of a document what a claim shows of it.
func brief(doc job.Job) job.Job {
	if n := len(doc.Attempts); n > 0 {
		newest := doc.Attempts[n-1]
		newest.Error = newest.Error[:min(len(newest.Error), maxHandedError)]
		doc.Attempts, doc.Error = []job.Attempt{newest}, newest.Error
	}
	return doc
}

func (p *player) compareQueues() error {
	want := p.m.queueDocuments()
	var got []Queue
	for limit, client, typ, more := 1, "", "", true; more; limit++ {
		var page []Queue
		var err error
		if page, more, err = p.s.Queues("", client, typ, limit); err != nil {
			return err
		}
		if more && len(page) != limit {
			return fmt.Errorf("a page of %d queues has %d, and more follow", limit, len(page))
		}
		got = append(got, page...)
		if len(page) > 0 {
			client, typ = page[len(page)-1].Client, page[len(page)-1].Type
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("queues\n\t%+v, the model has\n\t%+v", got, want)
	}
	for _, q := range want {
		if doc, err := p.s.Queue(q.Client, q.Type); err != nil || doc != q {
			return fmt.Errorf("queue\n\t%+v (%v), the model has\n\t%+v", doc, err, q)
		}
	}
	ofB, _, err := p.s.Queues("b", "", "", 1000)
	if wantB := slices.DeleteFunc(want, func(q Queue) bool { return q.Client != "b" }); err != nil || !slices.Equal(ofB, wantB) {
		return fmt.Errorf("queues of client b\n\t%+v (%v), the model has\n\t%+v", ofB, err, wantB)
	}
	return nil
}

// sameJob compares documents field by field, and says which differ.
func sameJob(got, want job.Job) error {
	if !bytes.Equal(got.Payload, want.Payload) || !bytes.Equal(got.Output, want.Output) || len(got.Attempts) != len(want.Attempts) {
		return fmt.Errorf("payload %q, output %q, attempts %+v; the model has %q, %q, %+v", got.Payload, got.Output, got.Attempts,
			want.Payload, want.Output, want.Attempts)
	}
	got.Payload, got.Output, want.Payload, want.Output = nil, nil, nil, nil
	if len(got.Attempts) == 0 {
		got.Attempts, want.Attempts = nil, nil
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	var differ []string
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
			differ = append(differ, fmt.Sprintf("%s %+v, the model has %+v", g.Type().Field(i).Name, g.Field(i).Interface(), w.Field(i).Interface()))
		}
	}
	return errors.New(strings.Join(differ, "; "))
}

// generator makes random steps over a small universe. It plays the model along, so that it names jobs and claims that
// exist, and times at which something happens.
type generator struct {
	*rand.Rand
	options  Options
	m        *model
	seq      uint64
	at       int64
	claims   []job.ID
	sessions []job.ID
	length   int
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), at: startAt, m: newModel(0)}
	g.options = Options{Journal: testJournal, MemtableBytes: 256 << 10, CacheBytes: 1 << 20}
	g.options.bounds = &bounds{
		cachedSpans: oneOf(g, 0, 3, 1000), cachedBatches: oneOf(g, 0, 2, 1000), cachedClaims: oneOf(g, 0, 1, 1000), cachedSlotBytes: oneOf(g, 0, 1000, 1<<20),
		minWindow: oneOf(g, 1, 2), maxWindow: oneOf(g, 2, 3, 7, 1000), windowKeys: oneOf(g, 0, 5, 1000),
		rules: &rules{
			pageBytes: oneOf(g, 1, 20, 60, 1<<16), commandRows: oneOf(g, 1, 9, 30, 1000), claimRows: 1 << 30,
			cellSpans: oneOf[int64](g, 1, 2, 5, 512), sweepRows: oneOf(g, 1, 9, 30, 1000), effectBytes: oneOf[int64](g, 1, 100, 1000, 1<<20),
			sessions: oneOf[uint64](g, 1, 2, 4, 1000),
		},
	}
	g.m.most, g.m.mostSessions = g.options.bounds.rules.commandRows, g.options.bounds.rules.sessions
	g.length = 20 + g.IntN(100)
	if g.some(5) {
		g.length *= 4
	}
	if g.some(20) { // the low bits of the seqs begin again at 0 somewhere on the way
		g.seq = 1<<40 - uint64(g.IntN(2*g.length))*seqStride
	}
	return g
}

func oneOf[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// some reports true n times of a hundred.
func (g *generator) some(n int) bool { return g.IntN(100) < n }

func (g *generator) steps() (steps []step) {
	for range g.length {
		g.seq += uint64(1+g.IntN(3)) * seqStride
		g.at += g.pass()
		st := step{seq: g.seq, at: g.at, cmd: g.command()}
		if _, tick := st.cmd.(job.Tick); tick && g.some(80) {
			st.backlogs = seqStride - 1
		}
		st.commit, st.compare = g.some(30), g.some(8)
		st.restart, st.flush = g.some(2), g.some(50)
		result := g.m.apply(st.seq, st.at, st.cmd, nil)
		if c, ok := result.(*Claimed); ok && !c.Claim.IsZero() {
			g.claims = append(g.claims, c.Claim)
		}
		if o, ok := result.(*SessionOpened); ok && o.Refusal == job.Granted {
			g.sessions = append(g.sessions, o.Session.ID)
		}
		steps = append(steps, st)
	}
	return steps
}

// pass returns how much time passes before the next command.
func (g *generator) pass() int64 {
	if due := g.m.nextDue(); due != 0 && due < job.MaxTimeMs && g.some(20) { // what is put aside for good comes back by request only
		return max(0, due-g.at+g.Int64N(3)-1) // to what happens next, or a little before or after
	}
	switch n := g.IntN(100); {
	case n < 25:
		return 0
	case n < 70:
		return g.Int64N(300)
	case n < 93:
		return g.Int64N(2500)
	case n < 99:
		return g.Int64N(70_000)
	}
	return g.Int64N(20 * 24 * hourMs)
}

func (g *generator) command() job.Command {
	switch n := g.IntN(129); {
	case n >= 128:
		return g.endSession()
	case n >= 124:
		return job.OpenSession{Runner: oneOf(g, "", "r1")}
	case n >= 122:
		return job.DeleteIdleQueues{IdleMs: job.MinQueueIdleMs}
	case n >= 120:
		return job.DeleteQueue{Client: oneOf(g, "a", "b"), Type: oneOf(g, "x", "y", "z")}
	case n >= 118:
		return job.Switch{Stopped: g.some(40)}
	case n >= 100:
		return g.move()
	case n < 16:
		return g.create()
	case n < 42:
		return g.claim()
	case n < 55:
		return g.tickle()
	case n < 80:
		return g.complete()
	case n < 84:
		return job.Pause{Client: oneOf(g, "a", "b"), Type: oneOf(g, "x", "y"), Paused: g.some(45)}
	case n < 97:
		return job.Tick{Rows: oneOf(g, 0, 0, 0, 1, 20, 300, job.MaxTickRows)}
	case n < 98:
		return job.Mark{}
	case n < 99:
		return job.SetLevel{Level: job.Level}
	}
	return job.Grace{}
}

func (g *generator) create() job.Command {
	c := &job.Create{Frame: oneOf(g, job.NoFrame, job.LineFrame, job.LineFrame, job.LenFrame)}
	groups := oneOf(g, 1, 1, 1, 2, 3)
	alike := g.group()
	for range groups {
		group := g.group()
		if g.some(40) {
			group = alike // neighbours that differ in nothing but the group
		}
		group.Lines = oneOf(g, 1, 1, 2, 3, 5, 9)
		if g.some(3) {
			group.Lines = 40
		}
		group.Kind = oneOf(g, job.Text, job.Bytes)
		if c.Frame == job.NoFrame {
			group.Kind = job.Nothing
		}
		c.Groups = append(c.Groups, group)
		if c.Frame == job.NoFrame {
			continue
		}
		for range group.Lines {
			payload := []byte(strings.Repeat(string('a'+rune(g.IntN(26))), 1+g.IntN(12)))
			if g.some(3) {
				payload = bytes.Repeat(payload, 20)
			}
			if c.Frame == job.LenFrame {
				payload = append(payload, oneOf(g, "", "\n", "\n#:end")...)
			}
			c.Longest = max(c.Longest, len(payload))
			c.Payloads = c.Frame.Append(c.Payloads, payload)
		}
	}
	if g.some(25) {
		for line := range c.Lines() {
			if g.some(60) {
				c.Unique = append(c.Unique, job.UniqueKey{Line: line, Key: oneOf(g, "k1", "k2", "k3", "k 4", "k5", "k6")})
			}
		}
	}
	g.once(&c.Once, "")
	return c
}

// move makes an operator's command.
func (g *generator) move() job.Command {
	ids := g.someJobs(g.anyClaim(), 1)
	if len(ids) == 0 {
		ids = []job.ID{job.NewID(g.at, 3, 0)}
	}
	if g.some(30) {
		p := job.Patch{Job: ids[0]}
		if g.some(50) {
			n := oneOf(g, 0, 4, 9)
			p.Priority = &n
		}
		if g.some(50) {
			n := oneOf(g, 1, 2, 3, 30)
			p.MaxAttempts = &n
		}
		if at := oneOf(g, 0, g.at, g.at+1, g.at+2000); g.some(40) || p.Priority == nil && p.MaxAttempts == nil {
			p.RunAt = &at
		}
		return p
	}
	m := job.Move{Op: oneOf(g, job.Cancel, job.Cancel, job.Redrive, job.Redrive, job.Redrive, job.Run, job.Delete)}
	if g.some(55) || m.Op == job.Run {
		m.Job = ids[0]
		return m
	}
	if takes := m.Op.Takes(); g.some(50) {
		m.Status = takes[g.IntN(len(takes))]
	}
	if g.some(50) {
		m.Batch = ids[0].WithLine(0)
		return m
	}
	m.Client, m.Type = oneOf(g, "a", "b"), oneOf(g, "x", "y")
	return m
}

func (g *generator) group() job.Group {
	group := job.Group{
		Client: oneOf(g, "a", "b"), Type: oneOf(g, "x", "y"), Attributes: job.Attributes{Priority: oneOf(g, 0, 4, 4, 4, 9), MaxAttempts: oneOf(g, 1, 2, 3, 30),
			Backoff:     job.Backoff{InitialMs: oneOf[int64](g, 0, 500, 1000), FactorMilli: oneOf[int64](g, 1000, 2000), MaxMs: oneOf[int64](g, 500, 5000)},
			LeaseMs:     oneOf[int64](g, 1000, 1000, 1500, 60_000),
			RetentionMs: oneOf[int64](g, 0, 800, 5000, 1_000_000)},
	}
	if g.some(25) {
		group.RunAt = g.at + oneOf[int64](g, -1, 0, 1, 700, 3000)
	}
	if g.some(25) {
		group.ExpiresAt = g.at + oneOf[int64](g, 1, 600, 4000, 100_000)
	}
	if g.some(25) {
		group.TimeoutMs = oneOf[int64](g, 1000, 3000, 70_000)
	}
	if g.some(15) {
		group.Meta, group.Traceparent = "a=1,b=x%20y", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	return group
}

func (g *generator) names(of ...string) (names []string) {
	for _, name := range of {
		if g.some(25) {
			names = append(names, name)
		}
	}
	return names
}

func (g *generator) claim() job.Command {
	c := job.Claim{Runner: oneOf(g, "r1", "r2", "r22"), Max: oneOf(g, 1, 2, 4, 7, 1000), MaxBytes: job.MaxClaimBytes}
	if g.some(30) {
		c.Clients = g.names("a", "b", "c")
	}
	if g.some(30) {
		c.Types = g.names("x", "y", "z")
	}
	if g.some(30) {
		c.LeaseMs = oneOf[int64](g, 1000, 2000, 30_000)
	}
	if g.some(25) {
		c.MaxBytes = oneOf[int64](g, 1, 10, 25, 100)
	}
	c.Strategy = oneOf(g, job.Oldest, job.Oldest, job.Newest, job.Random, job.Fair)
	g.once(&c.Once, "claim ")
	return c
}

// anyClaim returns the id of a claim, mostly of a late one, or of none.
func (g *generator) anyClaim() job.ID {
	if len(g.claims) == 0 || g.some(5) {
		return job.NewID(g.at-1, 3, 0)
	}
	if g.some(3) {
		id := g.claims[0]
		return job.NewID(id.At()+1, uint64(id.LowSeq()), 0)
	}
	return g.claims[max(0, len(g.claims)-1-g.IntN(6))]
}

func (g *generator) anyRunner() string { return oneOf(g, "r1", "r2", "r22", "r3") }

// someJobs returns ids of jobs: of a claim if there is one, of any, of none.
func (g *generator) someJobs(claim job.ID, n int) (ids []job.ID) {
	for range n {
		switch c := g.m.claims[claim]; {
		case c != nil && g.some(80):
			ids = append(ids, c.handed[g.IntN(len(c.handed))].id)
		case g.some(5):
			ids = append(ids, job.NewID(g.at, g.seq+5, g.IntN(4)))
		case len(g.m.batches) > 0:
			b := g.m.batches[g.IntN(len(g.m.batches))]
			id := b.id.WithLine(g.IntN(len(b.lines)))
			if g.some(2) {
				id = job.NewID(id.At()+1, uint64(id.LowSeq()), id.Line())
			} else if g.some(2) {
				id = b.id.WithLine(len(b.lines) + g.IntN(2))
			}
			ids = append(ids, id)
		}
	}
	return ids
}

func (g *generator) tickle() job.Command {
	t := job.Tickle{Progress: -1}
	if g.some(25) {
		t.LeaseMs = oneOf[int64](g, 1000, 2500, 40_000)
	}
	if g.some(20) {
		t.Runner = g.anyRunner()
		return t
	}
	claim := g.anyClaim()
	if c := g.m.claims[claim]; c != nil && g.some(30) {
		t.Runner = oneOf(g, c.runner, c.runner, "r1")
	}
	if g.some(50) {
		t.Claim = claim
	}
	if g.some(40) && !t.Claim.IsZero() {
		return t
	}
	t.IDs = g.someJobs(claim, 1+g.IntN(4))
	if len(t.IDs) == 0 {
		t.IDs = []job.ID{job.NewID(g.at, 1, 0)}
	}
	if g.some(40) {
		t.Step = oneOf(g, "", "half way", "a=b, c%")
		t.Progress = oneOf[int64](g, -1, 0, 500_000, job.ProgressUnit)
	}
	return t
}

func (g *generator) complete() job.Command {
	var c job.Complete
	claim := g.anyClaim()
	all := g.some(35)
	if all || g.some(60) {
		c.Claim = claim
	}
	if known := g.m.claims[claim]; known != nil && g.some(30) {
		c.Runner = oneOf(g, known.runner, known.runner, "r2")
	}
	n := 1 + g.IntN(3)
	if all {
		o := g.outcome()
		c.All = &o
		n = oneOf(g, 0, 0, 1, 2)
	}
	for _, id := range g.someJobs(claim, n) {
		o := g.outcome()
		o.ID = id
		c.Outcomes = append(c.Outcomes, o)
	}
	if len(c.Outcomes) == 0 && c.All == nil {
		o := g.outcome()
		o.ID = job.NewID(g.at, 7, 1)
		c.Outcomes = []job.Outcome{o}
	}
	if g.once(&c.Once, "claim "); c.Once.Given() { // a claim that completes first has one key for both
		c.Once.Part = oneOf(g, 0, 0, 0, 1, 2)
	}
	return c
}

func (g *generator) outcome() job.Outcome {
	o := job.Outcome{Code: oneOf(g, job.OK, job.OK, job.OK, job.Fail, job.Retry, job.Error, job.Error, job.Unget, job.Damaged), DelayMs: -1}
	if o.Code != job.Unget && o.Code != job.Damaged {
		o.ExitCode = o.Code.DefaultExitCode() + oneOf(g, 0, 0, 1)
		if g.some(20) {
			o.ProcessExit = new(int64)
			*o.ProcessExit = oneOf[int64](g, 0, -1, 137)
		}
		if g.some(20) {
			o.OutputAddr = "s3://out put"
		}
		if g.some(25) {
			o.OutputKind, o.Output = job.Text, []byte(oneOf(g, "result", "two\nlines"))
		}
	}
	if o.Code != job.OK && g.some(60) {
		o.Error = oneOf(g, "no luck", "50% = bad\nluck")
	}
	if (o.Code == job.Retry || o.Code == job.Error) && g.some(40) {
		o.DelayMs = oneOf[int64](g, 0, 1, 1200)
	}
	return o
}

// documentsOf returns the documents of all jobs of a batch.
func documentsOf(s *Store, v lsm.View, b *batch) []job.Job {
	r := reader{Queries: s.Queries, v: v, b: b, parts: Everything, room: unbounded}
	docs, _ := r.documents(Run{b.seq, 0, b.lines - 1}, 0)
	return docs
}
