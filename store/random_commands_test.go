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
	"github.com/daybookq/daybook/proof/model"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
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
	m       *model.Model
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
	p.m = newModel(p.s)
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
			if due := p.m.NextDue(); due != 0 && due <= p.m.At {
				return fmt.Errorf("the store has nothing due at %d, and the model has something due since %d", p.m.At, due)
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
	if c, ok := got.(*applied.Claimed); ok && !c.Replayed {
		p.handed = append(p.handed, handedOut{claimed: c})
	}
	p.log = append(p.log, st)
	if c, ok := got.(*applied.Claimed); ok {
		p.results = append(p.results, model.Shown(c))
	} else {
		p.results = append(p.results, got)
	}
	seen := p.seen()
	if tick, is := cmd.(job.Tick); is {
		if err := p.checkTickRows(tick, seen.Effects); err != nil {
			return err
		}
	}
	if err := p.m.Compare(st.seq, st.at, cmd, got, seen); err != nil {
		return err
	}
	if n := len(p.handed); n > 0 && p.handed[n-1].want == nil { // of this command
		p.handed[n-1].want = map[job.ID]job.Job{}
		if c := p.m.Claims[p.handed[n-1].claimed.Claim]; c != nil {
			for _, j := range c.Handed {
				p.handed[n-1].want[j.ID] = p.m.Document(j)
			}
		}
	}
	for _, names := range [][2][]string{{}, {{"a"}, nil}, {nil, {"x", "y"}}, {{"b", "c"}, {"x"}}} {
		if got, want := p.s.Available(names[0], names[1]), len(p.m.Line(names[0], names[1], false)) > 0 && !p.m.Stopped; got != want {
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
	want2 := p.m.TakeReadied()
	slices.SortFunc(got2, func(a, b document.Readied) int { return strings.Compare(a.Client+"/"+a.Type, b.Client+"/"+b.Type) })
	if !slices.Equal(got2, want2) {
		return fmt.Errorf("readied %v, the model has %v", got2, want2)
	}
	return nil
}

// seen reports how much of its work the last command did.
func (p *player) seen() *model.Seen {
	return &model.Seen{
		Effects: p.s.Effects(),
		Session: func(id job.ID) bool { return p.s.machine.SessionOf(id) != nil },
		Batch: func(id job.ID) bool {
			return memory.RowOf(p.s.machine.Live.Seqs(id), id, p.s.machine.Submission) != nil
		},
		Sweep: func(id job.ID) bool {
			return slices.ContainsFunc(p.s.machine.Live.Running, func(w *row.Sweep) bool { return w.Id() == id })
		},
		Distinct: func(s job.Strategy) (levels, uncounted []string) { return levelsOf(p.s, s), uncountedOf(p.s, s) },
	}
}

// checkTickRows checks that a tick did not write more rows than it may, as far as its effects show.
func (p *player) checkTickRows(tick job.Tick, effects []row.Effect) error {
	cost, largest, gone, cancelled := 0, 0, map[row.Run]bool{}, map[row.Position]bool{}
	for _, e := range effects {
		for line := e.Run.First; e.Reason == job.ReasonCancelled && line <= e.Run.Last; line++ {
			cancelled[row.Position{e.Run.Batch, line}] = true
		}
		if e.Reason == job.ReasonPurged && (gone[e.Run] || cancelled[row.Position{e.Run.Batch, e.Run.First}]) || model.SweepReasons[e.Reason] != 0 {
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
	if most := cmp.Or(tick.Rows, p.s.machine.Rules.CommandRows) + row.TickSpanRows + largest; cost > most {
		return fmt.Errorf("a tick wrote about %d rows, with a bound of %d", cost, most)
	}
	return nil
}

func (p *player) commit() error {
	if err := p.s.Commit(); err != nil {
		return err
	}
	got, want := p.s.NextDue(), p.m.NextDue()
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
			got = model.Shown(c)
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
