package ingest

import (
	"slices"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// figuresOf returns the figures of the queue default/default.
func figuresOf(t *testing.T, e *Engine) store.QueueFigures {
	t.Helper()
	all := e.QueueFigures()
	if len(all) != 2 || e.QueueRows() != 2 || all[0].Client != "default" {
		t.Fatalf("figures of %d queues, %d rows", len(all), e.QueueRows())
	}
	return all[0]
}

// TestQueueFiguresBeginWithTheStart: commands that a start applies are not counted, whether they are in the store or in
// the log. The existing jobs show immediately, without a command.
func TestQueueFiguresBeginWithTheStart(t *testing.T) {
	ctx := t.Context()
	log, dir := newMemoryLog(), t.TempDir()
	begin := func(dir string, l *memoryLog) (*Engine, func()) {
		l.lead(1)
		e := testkit.Must(Open(Options{Dir: dir, MetricsQueues: 10, openLog: func(journal.Options) (Log, error) { return l, nil }}))(t)
		return e, serve(t, e)
	}
	e, end := begin(dir, log)
	testkit.Must2(e.Create(ctx, lines(10)))(t)
	claimed, _ := mustClaim(t, e, claimOf(4))
	testkit.Must2(e.Complete(ctx, completeOf(claimed.Claim)))(t)
	if f := figuresOf(t, e); f.Created != 10 || f.Claimed != 4 || f.Completed != 4 || f.Waiting.Count() != 4 || f.Running.Count() != 4 || f.Pending != 6 || f.PendingSince == 0 {
		t.Errorf("%+v", f)
	}
	end()

	for name, at := range map[string]string{"the store has it": dir, "the log has it": t.TempDir()} {
		again := newMemoryLog()
		again.records = slices.Clone(log.records)
		e, end := begin(at, again)
		f := figuresOf(t, e)
		testkit.Holds(t, f.Pending == 6 && f.PendingSince != 0, name, f)
		mustClaim(t, e, claimOf(1))
		f = figuresOf(t, e)
		testkit.Holds(t, f.Created == 0 && f.Claimed == 1 && f.Completed == 0 && f.Pending == 5 && f.Active == 1, name, f)
		end()
	}
}

// TestQueueFiguresBesideCommands reads figures while commands are applied. They always add up.
func TestQueueFiguresBesideCommands(t *testing.T) {
	e, _ := startWith(t, Options{Dir: t.TempDir(), MetricsQueues: 3})
	ctx, turns := t.Context(), make(chan struct{}, 1)
	var readers sync.WaitGroup
	readers.Go(func() {
		last := uint64(0)
		for range turns {
			claimed := uint64(0)
			for _, f := range e.QueueFigures() {
				testkit.Holds(t, f.Waiting.Count() == f.Claimed && f.Running.Count() == f.Completed && f.Pending >= 0 && f.Active >= 0, f)
				claimed += f.Claimed
			}
			testkit.Holds(t, claimed >= last, claimed, "jobs claimed, after", last)
			last = claimed
		}
	})
	const rounds = 200
	for i := range rounds {
		select {
		case turns <- struct{}{}: // the reader runs while these commands are applied
		default:
		}
		c := lines(5)
		c.Groups[0].Type = []string{"a", "b", "c", "d", "e"}[i%5]
		testkit.Must2(e.Create(ctx, c))(t)
		claimed, _ := mustClaim(t, e, claimOf(5))
		testkit.Must2(e.Complete(ctx, job.Complete{Claim: claimed.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}}))(t)
	}
	close(turns)
	readers.Wait()
	all := e.QueueFigures()
	sum := uint64(0)
	for _, f := range all {
		sum += f.Completed
	}
	if len(all) != 4 || sum != 5*rounds || all[3].Completed != 2*rounds {
		t.Errorf("%d queues, %d jobs completed, %d of them of others", len(all), sum, all[len(all)-1].Completed)
	}
}
