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
	by       job.Actor
	cmd      job.Command
	commit   bool
	compare  bool // commit, and compare everything
	restart  bool // close, open, and apply the unflushed commands again
	flush    bool // before the restart
	backlogs int  // of a tick: how many more ticks may follow until nothing is due
}

func (st step) String() string {
	fields, body := st.cmd.Encode()
	fields = job.AppendActor(&st.by, fields)
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
	seeds := seedsOr(*seedsFlag, 400, 300)
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
	replay  *replay

	observes bool // the store counts the events of the jobs of queues
}

func play(o Options, steps []step) (err error) {
	o.FS = vfs.NewMem()
	p := &player{options: o, replay: newReplay()}
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
	by, cmd, err := job.DecodeRecord(st.cmd.Verb(), job.AppendActor(&st.by, fields), body)
	if err != nil {
		return err
	}
	got, err := p.s.ApplyRecord(st.seq, st.at, &job.Place{}, &by, cmd)
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
	if err := p.m.Compare(st.seq, st.at, &by, cmd, got, seen); err != nil {
		return err
	}
	if err := p.replay.follow(&st, p.s.machine.Meta.At, seen.Effects); err != nil {
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
		got, err := p.s.ApplyRecord(st.seq, st.at, &job.Place{}, &st.by, st.cmd)
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

// document generates a command that stores or deletes a named document.
func (g *generator) document(kind job.DocumentKind) job.Command {
	name := model.DocumentName{kind, oneOf(g, "", "a", "b"), oneOf(g, "x", "y")}
	p := job.PutDocument{Kind: kind, Client: name.Client, Name: name.Name, By: oneOf(g, "", "anna")}
	if g.some(30) {
		newest := g.m.Documents.Newest(name).Doc
		p.If = oneOf(g, job.IfNone, job.IfExists, job.IfVersion(newest.Version), job.IfVersion(newest.Version+1), job.Condition(newest.Digest.String()))
	}
	switch {
	case g.some(25):
		return job.DeleteDocument{Kind: kind, Client: p.Client, Name: p.Name, If: p.If, By: p.By}
	case kind.Rules().MaxBytes > 0:
		p.Summary, p.Document = oneOf(g, "http", "exec"), make([]byte, oneOf(g, 1, 2, 3, 4, 50, 150, 299, 301))
	default:
		p.Digest, p.Summary = job.DocumentDigest{byte(g.IntN(5))}, job.FilesetSummary(oneOf(g, 0, 1, 100_000), oneOf[int64](g, 0, 1, 1<<62))
	}
	return p
}

// global generates a change of a document that belongs to no client. fill gives it a name and a content of its kind.
func (g *generator) global(kind job.DocumentKind, fill func(p *job.PutDocument)) job.Command {
	p := job.PutDocument{Kind: kind}
	switch cmd := g.document(kind).(type) {
	case job.PutDocument:
		p = cmd
	case job.DeleteDocument:
		p.Name = cmd.Name
		fill(&p)
		cmd.Client, cmd.Name = "", p.Name
		return cmd
	}
	p.Client = ""
	fill(&p)
	return p
}

// key generates a change of a key.
func (g *generator) key() job.Command {
	return g.global(job.KeyDocument, func(p *job.PutDocument) {
		key := job.Key{Roles: oneOf(g, job.RolesOf(job.RoleAdmin), job.RolesOf(job.RoleProducer, job.RoleWorker)), Generation: 1, Sum: job.KeySum{byte(1 + g.IntN(3))}}
		p.Summary, p.Document = "admin", key.Document()
	})
}

// login generates a login, or the end of one.
func (g *generator) login() job.Command {
	return g.global(job.LoginDocument, func(p *job.PutDocument) {
		login := job.Login{By: oneOf(g, "boss", "anna"), Until: 1 + g.Int64N(1<<40), KeySum: job.KeySum{1}}
		p.Summary, p.Document = login.By, login.Document()
	})
}

// quota generates a change of a quota.
func (g *generator) quota() job.Command {
	return g.global(job.QuotaDocument, func(p *job.PutDocument) {
		quota := job.Quota{Unfinished: int64(g.IntN(3)), Queues: int64(1 + g.IntN(3))}
		p.Name, p.Summary, p.Document = oneOf(g, "a", "b"), quota.Summary(), quota.Document()
	})
}

// lostRunner generates the loss of a runner: of all its claims, or of its claims up to an earlier command.
func (g *generator) lostRunner() job.Command {
	through := g.seq - 1
	if len(g.claims) > 0 && g.some(30) {
		if c := g.m.Claims[g.anyClaim()]; c != nil {
			through = c.Seq - uint64(g.IntN(2))
		}
	}
	return job.LoseRunner{Runner: g.anyRunner(), Through: through}
}

// once gives some commands one of a few keys, or a number of a session.
func (g *generator) once(o *job.Once, scope string) {
	digest := job.Digest{byte(g.IntN(8) / 7)}
	switch n := g.IntN(100); {
	case n < 12:
		*o = job.Once{Scope: scope + oneOf(g, "s", "t u"), Key: oneOf(g, "1", "2", "3"), Digest: digest}
	case n < 32 && len(g.sessions) > 0:
		id := g.sessions[max(0, len(g.sessions)-1-g.IntN(3))]
		slot, last := oneOf(g, 0, 0, 1, job.MaxSlots-1), uint64(0)
		if n := g.m.Sessions[id]; n != nil {
			last = n.Slots[slot].Number
		}
		if g.some(3) {
			id = job.NewID(id.At()+1, uint64(id.LowSeq()), 0)
		}
		*o = job.Once{Session: id, Slot: slot, Number: max(1, last+oneOf[uint64](g, 0, 0, 1, 1, 1, 9)-oneOf[uint64](g, 0, 0, 0, 0, min(1, last))), Digest: digest}
	}
}

func (g *generator) endSession() job.Command {
	if len(g.sessions) == 0 || g.some(5) {
		return job.EndSession{Session: job.NewID(g.at, 3, 0)}
	}
	return job.EndSession{Session: g.sessions[g.IntN(len(g.sessions))]}
}

// Submission generates the attributes of a batch.
func (g *generator) Submission() *job.Submission {
	s := &job.Submission{
		Name: oneOf(g, "", "one", "two words"), Meta: oneOf[job.BatchMeta](g, "", "user:42", "user=42,x:-1"),
		OnFailure: oneOf(g, job.Continue, job.CancelRest), ChunkSize: oneOf[int64](g, 0, 1, 20), Open: g.some(35), Paused: g.some(25),
	}
	if g.some(30) {
		s.Metadata, s.Tracestate, s.Baggage = []byte("opaque\n\x00"), "a=b", "user=1"
	}
	return s
}

// anySubmission returns the id of a batch, mostly of a batch with attributes.
func (g *generator) anySubmission() job.ID {
	if n := len(g.m.Submissions); n > 0 && g.some(90) {
		return g.m.Submissions[g.IntN(n)].ID
	}
	if n := len(g.m.Batches); n > 0 && g.some(50) {
		return g.m.Batches[g.IntN(n)].ID
	}
	return g.anyClaim()
}

func (g *generator) changeBatch() job.Command {
	return job.ChangeBatch{Op: oneOf(g, job.CloseBatch, job.ResumeBatch), Batch: g.anySubmission()}
}
