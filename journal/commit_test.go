package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
)

// gate blocks the committer in the fsync of each group until the test opens it.
type gate struct {
	entered chan struct{} // gets a value for each fsync that has begun
	open    chan struct{} // a value lets one fsync end; closing the channel lets all end
}

func newGate() *gate { return &gate{make(chan struct{}, 1000), make(chan struct{}, 1000)} }

func (g *gate) sync(l *wal.Log) error {
	g.entered <- struct{}{}
	<-g.open
	return l.Sync()
}

func TestGroupCommit(t *testing.T) {
	t.Run("control first, then bulk in order", func(t *testing.T) {
		g := newGate()
		r := mustRun(t, Options{Hooks: Hooks{Sync: g.sync}})
		var answers []chan answer
		add := func(lane Lane, verb string) {
			ch := testkit.Must(r.propose(lane, verb, ""))(t)
			answers = append(answers, ch)
		}
		add(Bulk, "first")
		<-g.entered // all later commands join the next group
		for _, verb := range []string{"bulka", "bulkb"} {
			add(Bulk, verb)
		}
		for _, verb := range []string{"controla", "controlb"} {
			add(Control, verb)
		}
		close(g.open)
		for _, ch := range answers {
			a := <-ch
			testkit.NoError(t, a.err)
		}
		r.stop()
		var verbs []string
		for _, rec := range r.got[:5] {
			verbs = append(verbs, rec.Verb)
		}
		testkit.MustEqual(t, strings.Join(verbs, " "), "first controla controlb bulka bulkb")
		testkit.MustHold(t, r.got[1].Synced == 1 && r.got[4].Synced == 1, "synced", r.got)
	})
	t.Run("bulk fills a group to its bound or one record", func(t *testing.T) {
		var j Journal
		l := &j.proposals.lanes[Bulk]
		push := func(sizes ...int) {
			l.queue = nil
			for _, n := range sizes {
				l.queue = append(l.queue, &Proposal{Lane: Bulk, Body: make([]byte, n-proposalOverhead)})
			}
		}
		for _, c := range []struct {
			sizes []int
			want  int
		}{
			{[]int{maxGroupBytes}, 1},
			{[]int{maxGroupBytes + 1, 1000}, 1},
			{[]int{maxGroupBytes / 2, maxGroupBytes / 2, 1000}, 2},
			{[]int{maxGroupBytes / 2, maxGroupBytes/2 + 1, 1000}, 1},
			{[]int{1000, maxGroupBytes + 1}, 1},
		} {
			push(c.sizes...)
			got := len(j.proposals.takeGroup(nil))
			testkit.Holds(t, got == c.want && len(l.queue) == len(c.sizes)-c.want, c.sizes, got, "taken", len(l.queue), "left")
		}
		push(maxGroupBytes * 2)
		for range 100 {
			j.proposals.lanes[Control].queue = append(j.proposals.lanes[Control].queue, &Proposal{Lane: Control})
		}
		testkit.Equal(t, len(j.proposals.takeGroup(nil)), 101, "control did not all join")
	})
	t.Run("gathered while commands arrive", func(t *testing.T) {
		for _, c := range []struct {
			arrive []int // the bodies of the commands: the first one waits, and each yield brings the next
			yields int
		}{
			{nil, 0},
			{[]int{10}, 1},
			{[]int{10, 10, 10}, 3},
			{slices.Repeat([]int{10}, 100), maxYields},
			{[]int{10, maxGroupBytes, 10}, 1},
			{[]int{maxGroupBytes, 10, 10}, 1},
		} {
			var q proposals
			arrived := 0
			arrive := func() {
				if arrived < len(c.arrive) {
					q.lanes[Bulk].take(&Proposal{Lane: Bulk, Body: make([]byte, c.arrive[arrived])})
					arrived++
				}
			}
			arrive() // the first one wakes the committer
			yields := 0
			commands := q.gather(func() { yields++; arrive() })
			testkit.Holds(t, yields == c.yields && commands == arrived, len(c.arrive), "commands arrive", yields, "yields",
				commands, "of", arrived, "commands, want", c.yields, "yields")
		}
	})
	t.Run("answers before the hand-over, synced before the answers", func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		note := func(s string) {
			mu.Lock()
			order = append(order, s)
			mu.Unlock()
		}
		r := mustRun(t, Options{Deliver: func(rs []Record) {
			if rs[0].Verb != MarkVerb {
				note("deliver " + rs[0].Verb)
			}
		}})
		for _, verb := range []string{"a", "b"} {
			ch := make(chan uint64, 1)
			testkit.NoError(t, r.Propose(t.Context(), &Proposal{Verb: verb, Tag: verb, Done: func(seq uint64, _ int64, err error) {
				testkit.Holds(t, err == nil && r.Synced() >= seq && r.Appended() >= seq, err, "synced", r.Synced(), "of", seq)
				note("done " + verb)
				ch <- seq
			}}))
			<-ch
		}
		r.stop()
		testkit.MustEqual(t, strings.Join(order, ", "), "done a, deliver a, done b, deliver b")
		testkit.MustHold(t, r.got[0].Tag == "a", r.got[0])
	})
	t.Run("a proposal may be larger than a segment and a volume", func(t *testing.T) {
		r := mustRun(t, Options{SegmentBytes: 100, VolumeBytes: 250})
		for i := range 20 {
			r.mustPut("create", strings.Repeat("x", i*37))
		}
		testkit.MustHold(t, len(r.Volumes()) >= 5, r.Volumes())
		r.stop()
		again := mustRun(t, Options{Dir: r.o.Dir, SegmentBytes: 50})
		a := again.mustPut("create", "")
		testkit.MustEqual(t, a.seq, r.Synced()+1, a)
		again.stop()
	})
	t.Run("at never decreases, whatever the clock says", func(t *testing.T) {
		times := []int64{1000, 500, 700, -5, 1 << 62, 3}
		var n atomic.Int64
		r := mustRun(t, Options{Clock: func() int64 { return times[min(int(n.Add(1)), len(times))-1] }})
		last := int64(0)
		for range 10 {
			a := r.mustPut("create", "")
			testkit.MustHold(t, a.at >= last && (a.at == r.LastAt() || r.LastAt() >= a.at), a, last)
			last = a.at
		}
		r.stop()
	})
}

// TestSegmentNames: this package always knows which file tidwall/wal writes to and how long the file is. The journal
// checks this at every group, so the test writes random groups to small segments.
func TestSegmentNames(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 8 {
		dir := t.TempDir()
		for range 3 {
			r := mustRun(t, Options{Dir: dir, SegmentBytes: 1 + rng.IntN(400), VolumeBytes: 1 + int64(rng.IntN(3000))})
			var pending []chan answer
			for range 60 {
				ch := testkit.Must(r.propose(Lane(rng.IntN(2)), "create", strings.Repeat("y", rng.IntN(300))))(t)
				pending = append(pending, ch)
				if rng.IntN(4) == 0 {
					<-pending[len(pending)-1]
					pending = pending[:len(pending)-1]
				}
			}
			for _, ch := range pending {
				a := <-ch
				testkit.NoError(t, a.err, "seed", seed)
			}
			r.stop()
		}
	}
}

func TestIdleMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Options{})
		time.Sleep(time.Hour)
		testkit.MustEqual(t, r.Synced(), 0, "a mark without a record to prove")
		r.mustPut("create", "a")
		time.Sleep(idleMark - 1)
		synctest.Wait()
		testkit.MustEqual(t, r.Synced(), 1, "a mark before it was due")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		testkit.MustEqual(t, r.Synced(), 2, "no mark")
		time.Sleep(time.Hour)
		st := r.Status()
		testkit.MustHold(t, st.Synced == 2 && st.Marks == 1 && st.Records == 2, st)
		r.mustPut("create", "b")
		r.stop() // writes the mark of a clean stop
		st = r.Status()
		testkit.MustHold(t, st.Synced == 4 && st.Marks == 2, st)
		var verbs []string
		for _, g := range r.got {
			verbs = append(verbs, fmt.Sprintf("%s/%d", g.Verb, g.Synced))
		}
		testkit.MustEqual(t, strings.Join(verbs, " "), "create/0 mark/1 create/2 mark/3")
		// A stop just after a mark writes no second mark.
		again := mustRun(t, Options{Dir: r.o.Dir})
		again.stop()
		testkit.MustEqual(t, again.Synced(), 4)
	})
}

func TestProposeRefuses(t *testing.T) {
	r := mustRun(t, Options{})
	done := func(uint64, int64, error) { t.Error("Done of a refused proposal") }
	for name, c := range map[string]struct {
		p    Proposal
		want error
	}{
		"mark":       {Proposal{Verb: MarkVerb, Done: done}, ErrInvalid},
		"no verb":    {Proposal{Done: done}, ErrInvalid},
		"no Done":    {Proposal{Verb: "a"}, ErrInvalid},
		"lane":       {Proposal{Verb: "a", Lane: 2, Done: done}, ErrInvalid},
		"line break": {Proposal{Verb: "a", Fields: []byte("a\nb"), Done: done}, ErrInvalid},
		"too large":  {Proposal{Verb: "a", Lane: Bulk, Body: make([]byte, MaxRecordBytes-envelopeBytes+1), Done: done}, ErrTooLarge},
	} {
		err := r.Propose(t.Context(), &c.p)
		testkit.Holds(t, errors.Is(err, c.want), name, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Failed(t, r.Propose(ended, &Proposal{Verb: "a", Done: done}), context.Canceled)
	a := make(chan error, 1)
	largest := &Proposal{Verb: "a", Lane: Bulk, Body: bytes.Repeat([]byte("z"), MaxRecordBytes-envelopeBytes),
		Done: func(_ uint64, _ int64, err error) { a <- err }}
	testkit.NoError(t, r.Propose(t.Context(), largest))
	testkit.NoError(t, <-a)
	r.stop()
	testkit.Failed(t, r.Propose(t.Context(), &Proposal{Verb: "a", Done: done}), ErrClosed)
	testkit.Failed(t, r.Run(t.Context()), ErrClosed)
}

// TestBytesInFlight: at the limit, bulk commands wait through fsync and delivery, and continue in the order of arrival. A
// control command does not wait.
func TestBytesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handOver := make(chan struct{})
		const limit = 10_000
		r := mustRun(t, Options{inFlightBytes: limit, Deliver: func([]Record) { <-handOver }})
		body := strings.Repeat("x", 4000-proposalOverhead-len("client=acme"))
		var taken atomic.Int32
		for i := range 5 {
			go func() {
				_, err := r.propose(Bulk, string(rune('a'+i)), body)
				testkit.Check(t, err)
				taken.Add(1)
			}()
			synctest.Wait()
		}
		testkit.MustEqual(t, taken.Load(), 2, "of 4,000 bytes taken at a cap of 10,000")
		st := r.Status()
		testkit.MustHold(t, st.InFlightBytes == 8000 && st.Waits == 3, st)
		testkit.Must(r.propose(Control, "claim", ""))(t)
		// A proposer that gives up frees no room, and the remaining proposers keep their places.
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			gaveUp <- r.Propose(ctx, &Proposal{Lane: Bulk, Verb: "create", Body: make([]byte, 9000), Done: func(uint64, int64, error) {}})
		}()
		synctest.Wait()
		cancel()
		err := <-gaveUp
		testkit.MustHold(t, errors.Is(err, context.Canceled), err)
		for taken.Load() < 5 {
			handOver <- struct{}{}
			synctest.Wait()
		}
		close(handOver)
		r.stop()
		var verbs string
		for _, g := range r.got {
			if len(g.Verb) == 1 {
				verbs += g.Verb
			}
		}
		testkit.MustEqual(t, verbs, "abcde")
		// Exactly the limit, one byte more, and a lone command that is larger than the limit.
		l := lane{limit: 100}
		l.used = 60
		testkit.MustHold(t, l.fits(40) && !l.fits(41), "the cap is not at 100")
		l.used = 0
		testkit.MustHold(t, l.fits(1000), "a large one never gets through")
		st = r.Status()
		testkit.MustEqual(t, st.InFlightBytes, 0, st)
	})
}

// TestStop: the commands that Propose has taken are committed, and the callers that wait for room get ErrClosed.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r := mustRun(t, Options{inFlightBytes: 1000, Hooks: Hooks{Sync: g.sync}})
		one := testkit.Must(r.propose(Bulk, "create", ""))(t)
		<-g.entered
		two := testkit.Must(r.propose(Control, "claim", ""))(t)
		sent := make(chan error, 1)
		go func() { _, err := r.propose(Bulk, "create", strings.Repeat("x", 900)); sent <- err }()
		synctest.Wait()
		r.cancel()
		close(g.open)
		a, b := <-one, <-two
		testkit.MustHold(t, a.err == nil && b.err == nil && a.seq == 1 && b.seq == 2, a, b)
		err := <-sent
		testkit.MustHold(t, err == nil || errors.Is(err, ErrClosed), err)
		r.stop()
		testkit.NoError(t, r.Close(), "the second Close")
	})
}

func TestCloseWithoutRun(t *testing.T) {
	j := mustOpen(t, Options{})
	a := make(chan error, 1)
	testkit.NoError(t, j.Propose(t.Context(), &Proposal{Verb: "a", Done: func(_ uint64, _ int64, err error) { a <- err }}))
	testkit.NoError(t, j.Close())
	err := <-a
	testkit.MustHold(t, errors.Is(err, ErrNotStored) && errors.Is(err, ErrClosed), err)
	err = j.Run(t.Context())
	testkit.MustHold(t, errors.Is(err, ErrClosed), err)
}

// TestCloseStopsRun: Close is a clean stop too, without the end of ctx.
func TestCloseStopsRun(t *testing.T) {
	r := mustRun(t, Options{})
	r.mustPut("create", "")
	testkit.NoError(t, r.Close())
	testkit.NoError(t, <-r.ran)
	rep, err := Verify(r.o.Dir)
	testkit.MustHold(t, err == nil && rep.Verbs[MarkVerb] != 0, rep, err)
}

// TestDirectorySync: the name of a new segment is durable before the journal answers the commands in it.
func TestDirectorySync(t *testing.T) {
	var mu sync.Mutex
	synced := make(map[string]int) // names in the volume when its directory was last synced
	h := Hooks{SyncFile: func(f *os.File) error {
		names, err := os.ReadDir(f.Name())
		if err == nil {
			mu.Lock()
			synced[f.Name()] = len(names)
			mu.Unlock()
		}
		return f.Sync()
	}}
	r := mustRun(t, Options{SegmentBytes: 300, Hooks: h})
	volume := filepath.Join(r.o.Dir, seqName(1))
	for range 30 {
		r.mustPut("create", "some body")
		names := testkit.Must(os.ReadDir(volume))(t)
		mu.Lock()
		n := synced[volume]
		mu.Unlock()
		testkit.MustHold(t, n >= len(names)-1, len(names), "segments, the directory was synced with", n) // an idle mark may have begun another segment since
	}
	r.stop()
}
