package ingest

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// onMemoryLog runs a test in fake time, with an engine on a memory log. The test plays the other processes.
func onMemoryLog(t *testing.T, test func(t *testing.T, l *memoryLog, e *Engine)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { l := newMemoryLog(); test(t, l, startOn(t, l, Options{Dir: dir})) })
}

// expectVerbs compares the commands that this process proposed since the last call with the expected ones.
func expectVerbs(t *testing.T, l *memoryLog, when string, want ...string) {
	t.Helper()
	testkit.EqualSlices(t, l.verbs(), want, when, "this process proposed")
}

// workOfOthers stores, as another process, one item of each kind that needs a timed command: a claim whose lease runs
// out, a job with a run_at, and a queue without jobs.
func workOfOthers(l *memoryLog) (claimed, deferred job.ID) {
	claimed = l.other(lines(1))
	l.other(claimOf(1))
	later := lines(1)
	later.Groups[0].RunAt = l.Now() + 10_000
	deferred = l.other(later)
	brief := lines(1)
	brief.Groups[0].Type = "idle"
	l.other(job.Move{Op: job.Delete, Job: l.other(brief)})
	return claimed, deferred
}

// TestFollowerProposesNothingByItself: a process that does not lead the log does not propose a level, a grace, a tick or
// the deletion of idle queues, and does not set the time. It serves requests and applies the commands of other processes.
// When it becomes the leader, it proposes all of these.
func TestFollowerProposesNothingByItself(t *testing.T) {
	onMemoryLog(t, func(t *testing.T, l *memoryLog, e *Engine) {
		ctx := t.Context()
		claimed, deferred := workOfOthers(l)
		time.Sleep(2 * time.Minute)
		expectVerbs(t, l, "while another process led")
		doc := status(t, e, deferred)
		testkit.Equal(t, doc.Status, job.Deferred, "before the leader's tick:", doc)
		testkit.Fails(e.AcceptTime(ctx))(t, ErrNotLeading, ErrNotStored)

		l.other(job.Tick{AsOf: l.Now() - 90_000, Rows: 1000})
		doc = status(t, e, deferred)
		testkit.Equal(t, doc.Status, job.Pending, "after the leader's tick:", doc)
		testkit.Must2(e.Create(ctx, lines(1)))(t)
		_, jobs := mustClaim(t, e, claimOf(10))
		testkit.Equal(t, len(jobs), 2, "claimed")
		expectVerbs(t, l, "on requests", "create", "claim")

		l.lead(3)
		time.Sleep(time.Second)
		if verbs := l.verbs(); len(verbs) == 0 || verbs[0] != "grace" || !slices.Contains(verbs, "deleteidle") {
			t.Errorf("when it began to lead, this process proposed %v, and not first a grace", verbs)
		}
		doc = status(t, e, claimed)
		testkit.Equal(t, doc.Status, job.Active, "after the grace:", doc)
		time.Sleep(2 * time.Minute)
		verbs := l.verbs()
		testkit.Holds(t, slices.Contains(verbs, "tick"), "when the leases were over, this process proposed", verbs, "and no tick")
		doc = status(t, e, claimed)
		testkit.Equal(t, doc.Status, job.Pending, "after the tick:", doc)
		testkit.Must(e.AcceptTime(ctx))(t)
	})
}

// TestGraceInEachTerm: each term of this process begins with a grace, even if it also led the term before. A term without
// active jobs needs none.
func TestGraceInEachTerm(t *testing.T) {
	onMemoryLog(t, func(t *testing.T, l *memoryLog, e *Engine) {
		l.lead(1)
		time.Sleep(time.Second)
		expectVerbs(t, l, "in a first term without claims", "level")
		l.other(lines(1))
		l.other(claimOf(1))
		for term := range uint64(3) {
			l.lead(2 + term)
			time.Sleep(time.Second)
			expectVerbs(t, l, "in a new term", "grace")
		}
		l.lead(0)
		time.Sleep(time.Second)
		l.lead(9)
		time.Sleep(time.Second)
		expectVerbs(t, l, "after a term of another process", "grace")
	})
}

// TestLeadershipLostBeforeTheProposal: leadership ends after the engine has decided to propose a command but before it
// proposes it. The engine then proposes nothing until it leads in a new term, whether or not another process leads in
// between.
func TestLeadershipLostBeforeTheProposal(t *testing.T) {
	for _, c := range []struct {
		name string
		// before runs before this process begins to lead in term 1, or while it leads in term 1.
		before func(l *memoryLog)
		// due reports whether the engine must have decided to propose the command by now.
		due   func(e *Engine) bool
		begun bool // term 1 has already begun
		verb  string
	}{
		{"level", func(l *memoryLog) {}, func(*Engine) bool { return true }, false, "level"},
		{"grace", func(l *memoryLog) {
			l.other(job.SetLevel{Level: job.Level})
			l.other(lines(1))
			l.other(claimOf(1))
		}, func(e *Engine) bool { return e.store.Totals().Counts[job.Active] > 0 }, false, "grace"},
		{"tick", func(l *memoryLog) {
			later := lines(1)
			later.Groups[0].RunAt = l.Now() + 1000
			l.other(later)
		}, func(e *Engine) bool { return e.untilDue() == 0 }, true, "tick"},
		{"idle queues", func(l *memoryLog) { l.other(job.Move{Op: job.Delete, Job: l.other(lines(1))}) },
			func(e *Engine) bool { wait, ok := e.untilIdle(); return ok && wait == 0 }, true, "deleteidle"},
	} {
		for name, after := range map[string]uint64{"another process leads": 0, "a later term of its own": 2} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				onMemoryLog(t, func(t *testing.T, l *memoryLog, e *Engine) {
					if c.begun {
						l.lead(1)
						time.Sleep(time.Second)
						expectVerbs(t, l, "when the term began", "level")
					}
					c.before(l)
					synctest.Wait() // until the command is applied
					lost, looks := false, 0
					l.watchLeads(func(term uint64) {
						switch {
						case term == 1 && !lost && c.due(e): // the engine gets yes, but this is out of date when it acts
							lost = true
							l.lead(after)
						case lost && looks < 2: // the check before the proposal, and the first after the proposal that must not be made
							expectVerbs(t, l, "of the term that had ended")
							looks++
						}
					})
					l.lead(1)
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					testkit.MustHold(t, lost, "there was nothing to propose: this test tests nothing")
					if after == 0 {
						expectVerbs(t, l, "of the term that had ended")
						l.lead(3)
						time.Sleep(time.Second)
					}
					verbs := l.verbs()
					testkit.Holds(t, slices.Contains(verbs, c.verb), "in its next term this process proposed", verbs, "and no", c.verb)
				})
			})
		}
	}
}

// TestReadyAfterTheBarrier: an engine accepts requests only when its state includes all commands that the log had at the
// start, however long the log takes to report their number.
func TestReadyAfterTheBarrier(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		l.silent = make(chan struct{})
		id := l.other(lines(1))
		began := time.Now()
		time.AfterFunc(20*time.Second, func() { l.other(job.Move{Op: job.Cancel, Job: id}); close(l.silent) })
		e := startOn(t, l, Options{Dir: dir})
		waited := time.Since(began)
		testkit.Holds(t, waited >= 20*time.Second, "ready after", waited)
		doc := testkit.Must(e.Queries().Job(id))(t)
		testkit.Equal(t, doc.Status, job.Cancelled, "when the engine is ready:", doc)
	})
}

// TestReadsWaitForTheBarrier: a read is refused if the log does not report in time which commands the state must include.
func TestReadsWaitForTheBarrier(t *testing.T) {
	onMemoryLog(t, func(t *testing.T, l *memoryLog, e *Engine) {
		silent := make(chan struct{})
		l.mu.Lock()
		l.silent = silent
		l.mu.Unlock()
		began := time.Now()
		err := e.CatchUp(t.Context(), 0)
		testkit.Holds(t, errors.Is(err, ErrStale) && time.Since(began) == BarrierWait, "after", time.Since(began), err)
		time.AfterFunc(time.Second, func() { close(silent) })
		testkit.Check(t, e.CatchUp(t.Context(), 0))
	})
}

// TestStoredThoughUnknown: if the log does not know whether a command is stored, the caller gets ErrUnknown once, and the
// command is applied when the log delivers it.
func TestStoredThoughUnknown(t *testing.T) {
	onMemoryLog(t, func(t *testing.T, l *memoryLog, e *Engine) {
		id := l.other(lines(1))
		l.mu.Lock()
		l.unsure = true
		l.mu.Unlock()
		testkit.Fails2(e.Move(t.Context(), job.Move{Op: job.Cancel, Job: id}))(t, ErrUnknown)
		doc := status(t, e, id)
		testkit.Equal(t, doc.Status, job.Cancelled, "after the cancel:", doc)
	})
}

// TestLocalLogDeliversWhatFollows: Run of the journal delivers only records that are written after the call. So it
// refuses a store whose cursor is before the end of the journal.
func TestLocalLogDeliversWhatFollows(t *testing.T) {
	e, _ := start(t, t.TempDir())
	testkit.Must2(e.Create(t.Context(), lines(1)))(t)
	testkit.Failed(t, e.log.Run(t.Context(), 0, nil))
	term, leads := e.log.Leads()
	testkit.Holds(t, term != 0 && leads, "the only process leads", leads, "in term", term)
}
