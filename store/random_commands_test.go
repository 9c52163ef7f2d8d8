package store

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
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
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

var (
	seedsFlag = flag.Int("seeds", 0, "how many seeds TestRandom plays; 0: 1500, or 300 with -short")
	seedFlag  = flag.Uint64("seed", 0, "play this seed of TestRandom alone")
)

// step is a command with its place in the journal, and the actions of the test after it.
type step struct {
	seq      uint64
	at       int64
	cmd      job.Command
	commit   bool
	compare  bool // commit, and compare everything
	restart  bool // close, open, and apply the unflushed commands again
	flush    bool // before the restart
	backlogs int  // of a tick: how many more ticks may follow until nothing is due
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
	seqStride   = 1 << 10 // space for ticks between two steps
	testJournal = "0197f1c0-1111-7abc-8def-000000000001"
)

// TestRandom applies random commands to a store and to the model, and compares everything that a user can see. If they
// differ, it reports the seed and the shortest list of commands that still fails.
func TestRandom(t *testing.T) {
	if *seedFlag != 0 {
		playSeed(t, *seedFlag)
		return
	}
	seeds := seedsOr(*seedsFlag, 1000, 300)
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

// seedsOr returns the number of seeds to play: the value of the flag, or one of two defaults.
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

// shrink removes steps as long as the rest still fails.
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

// player applies the same commands to a store and to the model.
type player struct {
	options Options
	s       *Store
	m       *model
	log     []step           // applied, in order
	results []applied.Result // of log
	flushed int              // how many commands of log certainly survive a restart
	handed  []handedOut

	observes bool // the store counts the events of the jobs of queues
}

func play(o Options, steps []step) (err error) {
	o.FS = vfs.NewMem()
	p := &player{options: o}
	if p.s, err = Open("store", o); err != nil {
		return err
	}
	p.m = newModel(p.s.machine.Seed, &p.s.machine.Rules)
	p.observeQueues()
	defer func() {
		if r := recover(); r != nil {
			stack := make([]byte, 8<<10)
			err = fmt.Errorf("panic: %v\n%s", r, stack[:runtime.Stack(stack, false)])
			return // after a panic within a command, Close may fail too
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
	if err := p.Apply(st); err != nil {
		return err
	}
	for i := range st.backlogs {
		if err := p.commit(); err != nil {
			return err
		}
		if due := p.s.NextDue(); due == 0 || due > st.at {
			if due := p.m.nextDue(); due != 0 && due <= p.m.at {
				return fmt.Errorf("the store has nothing due at %d, and the model has something due since %d", p.m.at, due)
			}
			break
		}
		if i == st.backlogs-1 {
			return fmt.Errorf("still due after %d ticks", st.backlogs)
		}
		again := st
		again.seq += uint64(i) + 1
		if err := p.Apply(again); err != nil {
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

// Apply applies a command to the store and to the model, in its journaled form.
func (p *player) Apply(st step) error {
	fields, body := st.cmd.Encode()
	cmd, err := job.Decode(st.cmd.Verb(), fields, body)
	if err != nil {
		return err
	}
	got, err := p.s.Apply(st.seq, st.at, cmd)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if c, ok := got.(*applied.Claimed); ok {
		if !c.Replayed {
			p.handed = append(p.handed, handedOut{claimed: c})
		}
		got = told(c)
	}
	p.m.distinctLevels = func(s job.Strategy) []string { return levelsOf(p.s, s) }
	p.m.distinctUncounted = func(s job.Strategy) []string { return uncountedOf(p.s, s) }
	p.log, p.results = append(p.log, st), append(p.results, got)
	events := []event{}
	switch cmd := cmd.(type) {
	case job.Tick:
		if events, err = p.watchTick(st); err != nil {
			return err
		}
		p.m.at = max(st.at, p.m.at)
		if err := p.m.expireSessions(func(id job.ID) bool { return p.s.machine.SessionOf(id) != nil }); err != nil {
			return err
		}
	case job.LoseRunner:
		if events, _, err = p.events(st.seq); err != nil {
			return err
		}
	case job.Move:
		if cmd.Job.IsZero() {
			if events, _, err = p.events(st.seq); err != nil {
				return err
			}
		}
	default:
		if len(p.m.submissions) > 0 { // the command may end one
			if events, _, err = p.events(st.seq); err != nil {
				return err
			}
		}
	}
	want := p.m.Apply(st.seq, st.at, cmd, events)
	for _, id := range p.m.spared {
		if slices.ContainsFunc(p.s.machine.Live.Running, func(w *row.Sweep) bool { return w.Id() == id }) {
			return fmt.Errorf("sweep %v is under way, but did not take a job that was returned in this tick", id)
		}
	}
	p.m.spared = nil
	if err := p.m.forgetSubmissions(func(id job.ID) bool {
		return memory.RowOf(p.s.machine.Live.Seqs(id), id, p.s.machine.Submission) != nil
	}); err != nil {
		return err
	}
	if c, ok := want.(*applied.Claimed); ok {
		want = p.m.inOrderOf(told(c), got.(*applied.Claimed))
	}
	if w, ok := want.(*applied.Swept); ok && w.Refusal == job.Granted {
		if err := sweptFits(w, got.(*applied.Swept), cmd.(job.Move)); err != nil {
			return err
		}
		want = got
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
	}
	for _, w := range p.m.sweeps {
		if !w.ended && !slices.ContainsFunc(p.s.machine.Live.Running, func(r *row.Sweep) bool { return r.Seq == w.seq }) {
			if left := p.m.targets(w); len(left) > 0 {
				return fmt.Errorf("sweep %v %+v has ended without taking %v", w.id, w.move, left)
			}
			w.ended = true
		}
	}
	if n := len(p.handed); n > 0 && p.handed[n-1].want == nil { // of this command
		p.handed[n-1].want = map[job.ID]job.Job{}
		for _, c := range p.m.claims {
			if c.id == p.handed[n-1].claimed.Claim {
				for _, j := range c.handed {
					p.handed[n-1].want[j.id] = p.m.Document(j)
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
	slices.SortFunc(got2, func(a, b document.Readied) int { return strings.Compare(a.Client+"/"+a.Type, b.Client+"/"+b.Type) })
	if !slices.Equal(got2, want2) {
		return fmt.Errorf("readied %v, the model has %v", got2, want2)
	}
	return nil
}

// fits compares the result of the first step of a sweep with the model's. The step may or may not notice that it was
// the last one.
func sweptFits(want, got *applied.Swept, move job.Move) error {
	switch {
	case want.Status != 0 && (got.Status != want.Status || got.Moved != want.Moved):
		return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
	case got.Moved != want.Moved, got.Skipped != 0 && move.Op != job.Redrive, got.Refusal != job.Granted, want.Sweep != got.Sweep && !want.Sweep.IsZero():
		return fmt.Errorf("result\n\t%+v, the model has\n\t%+v", got, want)
	}
	return nil
}

// inOrderOf returns a claim of the model with its jobs in the store's order, if they are the same jobs.
func (m *model) inOrderOf(want, got *applied.Claimed) *applied.Claimed {
	sorted := func(runs []row.Run) (joined []row.Run) {
		runs = slices.Clone(runs)
		slices.SortFunc(runs, func(a, b row.Run) int { return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.First, b.First)) })
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
	if want.Runs = got.Runs; c.begun != nil {
		c.beginFirst(c.begins)
	}
	return want
}

// events returns the effects of a command, both as events and as stored.
func (p *player) events(seq uint64) (events []event, effects []row.Effect, err error) {
	if err := p.s.Commit(); err != nil {
		return nil, nil, err
	}
	if effects, err = p.effects(seq); err != nil {
		return nil, nil, err
	}
	events = []event{}
	for _, e := range effects {
		b := p.m.batchOf(e.Run.Batch)
		for line := e.Run.First; b != nil && line <= e.Run.Last; line++ {
			events = append(events, event{b.id.WithLine(int(line)), e.Reason})
		}
	}
	return events, effects, nil
}

// watchTick returns the effects of a tick. A tick may do any share of the due work, in the order of time, so the model
// has to ask the store.
func (p *player) watchTick(st step) ([]event, error) {
	events, entries, err := p.events(st.seq)
	if err != nil {
		return nil, err
	}
	moved := map[job.ID]job.Reason{}
	for _, e := range events {
		if moved[e.id] == 0 {
			moved[e.id] = e.why
		}
	}
	cost, largest, gone, cancelled := 0, 0, map[row.Run]bool{}, map[row.Position]bool{}
	for _, e := range entries {
		for line := e.Run.First; e.Reason == job.ReasonCancelled && line <= e.Run.Last; line++ {
			cancelled[row.Position{e.Run.Batch, line}] = true
		}
		if e.Reason == job.ReasonPurged && (gone[e.Run] || cancelled[row.Position{e.Run.Batch, e.Run.First}]) || sweepReasons[e.Reason] != 0 {
			continue // finally failed and was not kept; and sweeps and the ends of batches have separate bounds
		}
		cost += row.TickSpanRows
		if e.Reason == job.ReasonAbandoned || e.Reason == job.ReasonTimedOut || e.Reason == job.ReasonExpired {
			gone[e.Run] = true
		}
		if e.Reason == job.ReasonAbandoned || e.Reason == job.ReasonTimedOut {
			cost += e.Run.Lines()
			largest = max(largest, e.Run.Lines())
		}
	}
	if most := cmp.Or(st.cmd.(job.Tick).Rows, p.s.machine.Rules.CommandRows) + row.TickSpanRows + largest; cost > most {
		return nil, fmt.Errorf("a tick wrote about %d rows, with a bound of %d", cost, most)
	}
	// Jobs become pending or are purged in the order of time, except for retries of jobs that were abandoned in this
	// tick.
	at := max(st.at, p.m.at)
	for _, status := range []job.Status{job.Deferred, job.Completed} {
		latest, earliest := int64(0), int64(0)
		for id, j := range p.m.jobs {
			when := p.m.due(j)
			if when == 0 || when > at || (status == job.Deferred) != (j.status == job.Deferred) || status != job.Deferred && !j.status.Terminal() {
				continue
			}
			if why := moved[id]; why == job.ReasonDue || why == job.ReasonExpired || why == job.ReasonPurged {
				latest = max(latest, when)
			} else if why == 0 && (earliest == 0 || when < earliest) {
				earliest = when
			}
		}
		if earliest != 0 && earliest < latest {
			return nil, fmt.Errorf("a tick did work that was due at %d before work that was due at %d", latest, earliest)
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

// effects reads the effects of a command.
func (p *player) effects(seq uint64) (effects []row.Effect, err error) {
	defer lsm.Catch(&err)
	v := p.s.db.View()
	defer v.Close()
	v.ScanDown(string(row.EffectTable), row.SeqKey(row.EffectTable, seq+1), func(key string, value []byte) bool {
		row.EachEffects(row.SeqOfKey(key), value, func(now job.Now, of []row.Effect) {
			if now.Seq == seq {
				effects = of
			}
		})
		return false
	})
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

// restart closes the store without a flush, so that it returns to its last flush. Then it applies the later commands
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
		return fmt.Errorf("after a restart seq %d is applied, but seq %d was flushed", p.s.Applied(), p.log[p.flushed-1].seq)
	}
	for i, st := range p.log {
		if st.seq <= p.s.Applied() {
			continue
		}
		got, err := p.s.Apply(st.seq, st.at, st.cmd)
		if err != nil {
			return fmt.Errorf("apply again: %w", err)
		}
		if c, ok := got.(*applied.Claimed); ok {
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
	if figures := p.s.QueueFigures(0); figures != nil {
		return fmt.Errorf("figures of queues without an observer: %+v", figures)
	}
	counted := p.observes
	p.observes = false
	if err := errors.Join(p.compare(), p.check()); err != nil || !counted {
		return err
	}
	p.observeQueues()
	return p.compareTallies()
}
