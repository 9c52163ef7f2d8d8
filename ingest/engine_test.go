package ingest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/query"
)

// start runs an engine on dir until the test ends or stop is called. It then checks the store.
func start(t testing.TB, dir string) (e *Engine, stop func()) {
	t.Helper()
	return startWith(t, Options{Dir: dir})
}

func startWith(t testing.TB, o Options) (e *Engine, stop func()) {
	t.Helper()
	dir := o.Dir
	e = testkit.Must(Open(o))(t)
	end := serve(t, e)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		end()
		check(t, dir)
	}
	t.Cleanup(stop)
	return e, stop
}

// serve runs an engine until end is called.
func serve(t testing.TB, e *Engine) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for e.Ready() != nil {
		select {
		case err := <-ended:
			t.Fatalf("engine ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	return func() { cancel(); testkit.Check(t, <-ended, "run") }
}

// current waits until the state includes all synced commands, and returns its queries.
func current(t testing.TB, e *Engine) *query.Queries {
	t.Helper()
	testkit.NoError(t, e.CatchUp(t.Context(), 0))
	return e.Queries()
}

func check(t testing.TB, dir string) {
	t.Helper()
	n := testkit.Must(Check(context.Background(), dir, func(p string) bool { t.Errorf("check: %s", p); return true }))(t)
	testkit.Holds(t, n == 0, "check", n, "problems")
}

// lines returns a create of n lines in the default queue.
func lines(n int) *job.Create {
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "line %d\n", i)
	}
	payloads, _, longest := job.TrimLines([]byte(body.String()))
	return &job.Create{Frame: job.LineFrame, Longest: longest, Payloads: payloads, Groups: []job.Group{{
		Lines: n, Client: "default", Type: "default", Attributes: job.Attributes{Kind: job.Text, Priority: 4, MaxAttempts: 3, LeaseMs: 60_000,
			Backoff: job.Backoff{InitialMs: 1000, FactorMilli: 2000, MaxMs: 10_000}, RetentionMs: 1_000_000},
	}}}
}

// mustClaim makes a claim that does not wait.
func mustClaim(t testing.TB, e *Engine, c job.Claim) (applied.Claimed, []job.Job) {
	t.Helper()
	claimed, jobs, _, err := e.Claim(t.Context(), c, 0)
	testkit.NoError(t, err)
	return claimed, jobs
}

func claimOf(n int) job.Claim { return job.Claim{Runner: "r1", Max: n, MaxBytes: job.MaxClaimBytes} }

func TestLifecycleOverRestarts(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e, stop := start(t, dir)
	_, receipt := testkit.Must2(e.Create(ctx, lines(1000)))(t)
	last := job.NewID(receipt.At, receipt.Seq, 999)
	doc := testkit.Must(current(t, e).Job(last))(t)
	testkit.MustHold(t, doc.Status == job.Pending && string(doc.Payload) == "line 999", "job", doc)
	claimed, jobs, _, err := e.Claim(ctx, claimOf(100), 0)
	testkit.NoError(t, err)
	testkit.MustHold(t, len(jobs) == 100 && string(jobs[42].Payload) == "line 42" && jobs[0].RunAttempts == 1, "claimed", claimed, len(jobs), "jobs")
	stop()

	e, stop = start(t, dir)
	tickled, _ := testkit.Must2(e.Tickle(ctx, job.Tickle{Claim: claimed.Claim, Progress: -1}))(t)
	testkit.MustEqual(t, tickled.Held, 100, "tickled", tickled)
	all := job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1},
		Outcomes: []job.Outcome{{ID: jobs[7].ID, Code: job.Fail, ExitCode: 404, Error: "no such thing", DelayMs: -1}}}
	for range 2 { // a repeated request gets the same answer
		ended, _ := testkit.Must2(e.Complete(ctx, all))(t)
		testkit.MustHold(t, ended.All == 99 && ended.Results[0].Status == job.Failed && ended.Refusal == job.Granted, "ended", ended)
	}
	stop()

	e, _ = start(t, dir)
	batch := testkit.Must(current(t, e).Batch(job.NewID(receipt.At, receipt.Seq, 0)))(t)
	testkit.MustHold(t, batch.Counts[job.Completed] == 99 && batch.Counts[job.Failed] == 1 && batch.Counts[job.Pending] == 900, "batch", batch)
	doc = testkit.Must(current(t, e).Job(jobs[7].ID))(t)
	testkit.MustHold(t, doc.Error == "no such thing" && doc.ExitCode == 404 && doc.Runner == "r1" && len(doc.Attempts) == 1, "job", doc)
}

// TestParkedClaim: a waiting claim gets a job as soon as one exists, and is not journaled before.
func TestParkedClaim(t *testing.T) {
	ctx := t.Context()
	e, _ := start(t, t.TempDir())
	got := make(chan int, 1)
	go func() {
		_, jobs, _, err := e.Claim(ctx, claimOf(10), time.Minute)
		testkit.Check(t, err)
		got <- len(jobs)
	}()
	testkit.Eventually(t, "the claim is parked", func() bool { return e.parked.n.Load() > 0 })
	testkit.Must2(e.Create(ctx, lines(3)))(t)
	testkit.MustEqual(t, <-got, 3, "jobs")
}

// TestCompletionsStayInOrder: a request with a large command and then a small one is carried out in this order. Proposed
// separately, they would be in different lanes, and the small one would be first.
func TestCompletionsStayInOrder(t *testing.T) {
	e, _ := start(t, t.TempDir())
	number := inSession(t, e)
	for name, once := range map[string]job.Once{"without a key": {}, "with a number": number(0, 1)} {
		t.Run(name, func(t *testing.T) {
			testkit.Must2(e.Create(t.Context(), lines(2)))(t)
			claimed, jobs := mustClaim(t, e, claimOf(2))
			testkit.MustEqual(t, len(jobs), 2, "jobs")
			failed := job.Outcome{ID: jobs[1].ID, Code: job.Fail, ExitCode: 400, DelayMs: -1}
			failed.OutputKind, failed.Output = job.Text, bytes.Repeat([]byte("x"), largeOutput)
			parts := []job.Complete{
				{Claim: claimed.Claim, Outcomes: []job.Outcome{failed}, Once: once},
				{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}, Once: once},
			}
			if once.Given() {
				parts[1].Once.Part = 1
			}
			ended, _ := testkit.Must2(e.CompleteInOrder(t.Context(), parts))(t)
			testkit.Holds(t, len(ended) == 2 && ended[0].Results[0].Status == job.Failed && ended[1].All == 1, ended)
		})
	}
}

// TestLongCompletionsLetOthersIn: if a request has very many outcomes, at most maxOutcomesAhead of them are applied
// before a later command.
func TestLongCompletionsLetOthersIn(t *testing.T) {
	const claims, each = 8, 400
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(t.Context(), lines(claims*each)))(t)
	var commands []job.Complete
	for range claims {
		claimed, jobs := mustClaim(t, e, claimOf(each))
		testkit.MustEqual(t, len(jobs), each, "jobs")
		c := job.Complete{Claim: claimed.Claim}
		for i := range jobs {
			c.Outcomes = append(c.Outcomes, job.Outcome{ID: jobs[i].ID, Code: job.OK, ExitCode: 200, DelayMs: -1})
		}
		commands = append(commands, c)
	}
	q := completions{e: e, ctx: t.Context(), lane: laneOfAll(commands)}
	most := 0
	for i := range commands {
		testkit.NoError(t, q.propose(&commands[i]))
		most = max(most, q.ahead)
	}
	testkit.Holds(t, most <= maxOutcomesAhead && most > each, most, "outcomes were ahead, and", maxOutcomesAhead, "may be")
	for len(q.proposed) > 0 {
		testkit.NoError(t, q.next())
	}
	testkit.Holds(t, len(q.ended) == claims && e.Stats().Jobs["completed"] == claims*each, len(q.ended), "were carried out", e.Stats().Jobs)
}

// TestCompletionsOfManyClaimsShareFsyncs: a runner reports the jobs of many claims in one request. Each claim is a
// separate command, and the commands share fsyncs.
func TestCompletionsOfManyClaimsShareFsyncs(t *testing.T) {
	const claims = 200
	var slow atomic.Bool // makes a sync take long, so that the commands are proposed during it
	e, _ := startWith(t, Options{Dir: t.TempDir(), Journal: journal.Options{Hooks: journal.Hooks{Sync: func(l *wal.Log) error {
		if slow.Load() {
			time.Sleep(20 * time.Millisecond) // real time: a slow disk
		}
		return l.Sync()
	}}}})
	testkit.Must2(e.Create(t.Context(), lines(claims)))(t)
	var commands []job.Complete
	for range claims {
		claimed, jobs := mustClaim(t, e, claimOf(1))
		testkit.MustEqual(t, len(jobs), 1, "jobs")
		ok := job.Outcome{ID: jobs[0].ID, Code: job.OK, ExitCode: 200, DelayMs: -1}
		commands = append(commands, job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{ok}})
	}
	before, synced := e.Stats().Journal.Syncs, e.Stats().Synced
	slow.Store(true)
	ended, last, err := e.CompleteInOrder(t.Context(), commands)
	slow.Store(false)
	testkit.NoError(t, err)
	testkit.MustEqual(t, len(ended), claims, "were carried out")
	for i := range ended {
		r := ended[i].Results
		testkit.Holds(t, len(r) == 1 && r[0].ID == commands[i].Outcomes[0].ID && r[0].Status == job.Completed, "result", i, r)
	}
	if now := e.Stats().Synced; last.Seq < synced+claims || last.Seq > now { // other commands, such as a tick, may be between and after
		t.Errorf("the receipt is of %d, and the commands are among %d to %d", last.Seq, synced+1, now)
	}
	syncs := e.Stats().Journal.Syncs - before
	testkit.Holds(t, syncs <= claims/10, claims, "commands took", syncs, "fsyncs")
}

// TestCommandTimes: the times of each verb are added up, and counted by their length.
func TestCommandTimes(t *testing.T) {
	var e Engine
	testkit.Equal(t, len(e.CommandTimes()), 0, "before the first command")
	e.counters.commands.add("claim", 3*time.Millisecond)
	e.counters.commands.add("tick", time.Second)
	e.counters.commands.add("claim", 5*time.Millisecond)
	e.counters.commands.add("claim", time.Millisecond)
	want := map[string]CommandTimes{"claim": {3, 9 * time.Millisecond, [...]uint64{1, 3, 3, 3, 3, 3}}, "tick": {1, time.Second, [...]uint64{0, 0, 0, 0, 1, 1}}}
	got := e.CommandTimes()
	testkit.Holds(t, maps.Equal(got, want), got, "want", want)
}

// TestLevel: a new log begins with the newest level. A start with an older level keeps it and logs a hint, until somebody
// raises it. A second raise is harmless.
func TestLevel(t *testing.T) {
	fresh, _ := start(t, t.TempDir())
	level, newest := fresh.Level()
	testkit.Holds(t, level == job.Level && newest == job.Level, "a new log has level", level, "of", newest)
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		l.other(lines(1)) // of a program that knew no level
		var log bytes.Buffer
		e := testkit.Must(Open(Options{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil)), OpenLog: l.open}))(t)
		end := serve(t, e)
		l.lead(1)
		time.Sleep(time.Minute)
		level, newest := e.Level()
		testkit.Holds(t, level == 0 && newest == job.Level, "after a start: level", level, "of", newest)
		for range 2 {
			level, _, err := e.RaiseLevel(t.Context())
			testkit.Holds(t, level == job.Level && err == nil, "raised to", level, err)
			level, _ = e.Level()
			testkit.Equal(t, level, job.Level, "raised: level")
		}
		end()
		testkit.Holds(t, strings.Contains(log.String(), "daybook level raise"), "no hint in the log", &log)
	})
}

// TestFlushAfterWork: a flush is due after flushWork of the applier's time, however few commands and bytes that was.
func TestFlushAfterWork(t *testing.T) {
	h := history{worked: make(chan struct{}, 1)}
	flushes := func() (n int) {
		for range 10 {
			h.spent(flushWork / 4)
			select {
			case <-h.worked:
				n++
			default:
			}
		}
		return n
	}
	testkit.Equal(t, flushes(), 2, "flushes in", 10*flushWork/4, "of work")
}

// TestMaintainFlushesWhenDue: a flush that is due takes place immediately, not with the next regular flush.
func TestMaintainFlushesWhenDue(t *testing.T) {
	bubble(t, func(t *testing.T, e *Engine) {
		_, receipt := testkit.Must2(e.Create(t.Context(), lines(1)))(t)
		synctest.Wait()
		seq := e.history.durable.Load()
		testkit.MustHold(t, seq < receipt.Seq, "the store is on disk up to", seq, "before a flush is due")
		signal(e.history.worked)
		synctest.Wait()
		seq = e.history.durable.Load()
		testkit.Holds(t, seq >= receipt.Seq, "the store is on disk up to", seq, "and not up to", receipt.Seq)
	})
}

// TestReplayCountsRecords: the progress of a replay is a number of records, even if the log has gaps and does not begin
// with the first record.
func TestReplayCountsRecords(t *testing.T) {
	s := testkit.Must(store.Open(t.TempDir(), store.Options{}))(t)
	defer s.Close()
	c := lines(1)
	c.Longest = job.MaxPayloadBytes
	c.Payloads = append(bytes.Repeat([]byte("x"), c.Longest), '\n')
	fields, body := c.Encode()
	var records iter.Seq2[journal.Record, error] = func(yield func(journal.Record, error) bool) {
		for seq := uint64(100); seq < 110; seq += 2 {
			if !yield(journal.Record{Verb: c.Verb(), Seq: seq, At: 1, Fields: fields, Body: body}, nil) {
				return
			}
		}
	}
	var seen []string
	n, err := Replay(t.Context(), s, records, func(seq, n uint64) { seen = append(seen, fmt.Sprint(seq, ":", n)) })
	testkit.Holds(t, err == nil && n == 5 && len(seen) >= 2 && (seen[0] == fmt.Sprint(100, ":", 1) || seen[0] == fmt.Sprint(102, ":", 2)),
		n, "records, progress", seen, err)
}

// TestCut: records that the store has on disk may be removed from the journal. Later starts begin after them. A rebuild
// requires a base whose cursor reaches the beginning of the journal.
func TestCut(t *testing.T) {
	dir := t.TempDir()
	small := Options{Dir: dir, JournalRetain: 64 << 10, Journal: journal.Options{SegmentBytes: 4 << 10, VolumeBytes: 16 << 10}}
	e, stop := startWith(t, small)
	var last Receipt
	for range 100 {
		_, last = testkit.Must2(e.Create(t.Context(), lines(100)))(t)
	}
	testkit.NoError(t, e.CatchUp(t.Context(), last.Seq))
	base := filepath.Join(t.TempDir(), "base")
	testkit.NoError(t, e.store.Checkpoint(base, time.Minute)) // a checkpoint flushes the store
	e.cut(64 << 10)
	if first := e.log.First(); first == 1 || e.log.Status().Bytes < 64<<10 {
		t.Errorf("after a cut that retains 64 KiB the journal begins at %d and has %d bytes", first, e.log.Status().Bytes)
	}
	e.cut(0)
	first := e.log.First()
	if flushed := e.Stats().Flushed; first == 1 || first > flushed+1 || flushed < last.Seq {
		t.Errorf("after a cut the journal begins at %d, and %d is flushed", first, flushed)
	}
	testkit.Must2(e.Create(t.Context(), lines(7)))(t)
	stop()

	e, stop = startWith(t, small)
	totals := e.store.Totals()
	testkit.Equal(t, totals.Counts[job.Pending], 100*100+7, "after the cut and a restart:", totals)
	want := digestOfData(t, stop, dir)

	testkit.Fails(Rebuild(t.Context(), dir, "", func(uint64, uint64) {}))(t, journal.ErrCursor, "next step")
	testkit.Fails(os.Stat(StoreDir(dir)+".rebuild"))(t, os.ErrNotExist)
	testkit.Must(Rebuild(t.Context(), dir, base, func(uint64, uint64) {}))(t)
	testkit.Equal(t, digestOfData(t, func() {}, dir), want, "rebuilt from a base before")
}

// digestOfData stops the engine and returns the digest of the store after a replay of the unflushed commands.
func digestOfData(t *testing.T, stop func(), dir string) string {
	t.Helper()
	stop()
	e := testkit.Must(Open(Options{Dir: dir}))(t)
	defer func() { testkit.Check(t, e.close()) }()
	testkit.NoError(t, e.replay(t.Context()))
	return digest(t, e.store)
}
