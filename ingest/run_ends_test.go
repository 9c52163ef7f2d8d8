package ingest

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// runEndsOf collects the ends of runs that an engine reports.
type runEndsOf struct {
	mu   sync.Mutex
	list []job.RunEnd
}

func (r *runEndsOf) add(ends []job.RunEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, ends...)
}

func (r *runEndsOf) all() []job.RunEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// TestRunEndsAreReportedOnce: an engine reports the end of a run before it answers the command that ended it. An engine
// that starts with a log that has the command does not report it again, but reports later ends.
func TestRunEndsAreReportedOnce(t *testing.T) {
	ctx := t.Context()
	begin := func(l *memoryLog) (*Engine, *runEndsOf, func()) {
		var ends runEndsOf
		l.lead(1)
		e := testkit.Must(Open(Options{Dir: t.TempDir(), OnRunEnds: ends.add, openLog: func(journal.Options) (Log, error) { return l, nil }}))(t)
		return e, &ends, serve(t, e)
	}
	first := newMemoryLog()
	e, ends, end := begin(first)
	testkit.Must2(e.Create(ctx, lines(10)))(t)
	claimed, _ := mustClaim(t, e, claimOf(4))
	testkit.MustEqual(t, len(ends.all()), 0)
	testkit.Must2(e.Complete(ctx, completeOf(claimed.Claim)))(t)
	if got := ends.all(); len(got) != 1 || got[0].Jobs != 4 || got[0].Outcome != "ok" || got[0].Claim != claimed.Claim || got[0].Runner != "r1" {
		t.Errorf("%+v", got)
	}
	end()

	second := newMemoryLog()
	second.records = slices.Clone(first.records)
	e, ends, end = begin(second) // its store is empty, so it applies everything
	defer end()
	testkit.Equal(t, len(ends.all()), 0, "after a start")
	claimed, _ = mustClaim(t, e, claimOf(4))
	testkit.Must2(e.Complete(ctx, completeOf(claimed.Claim)))(t)
	got := ends.all()
	testkit.Holds(t, len(got) == 1 && got[0].Claim == claimed.Claim, got)
}

// TestBatchEndsAreReportedOnce is TestRunEndsAreReportedOnce for batches.
func TestBatchEndsAreReportedOnce(t *testing.T) {
	ctx := t.Context()
	var ends []job.BatchEnd // read after the engine has stopped
	begin := func(l *memoryLog) (*Engine, func()) {
		ends = nil
		l.lead(1)
		e, err := Open(Options{Dir: t.TempDir(), OnBatchEnds: func(list []job.BatchEnd) { ends = append(ends, list...) }, openLog: func(journal.Options) (Log, error) { return l, nil }})
		testkit.NoError(t, err)
		return e, serve(t, e)
	}
	first := newMemoryLog()
	e, end := begin(first)
	create := lines(3)
	create.Submission = &job.Submission{OnFailure: job.CancelRest}
	made, _ := testkit.Must2(e.Create(ctx, create))(t)
	claimed, _ := mustClaim(t, e, claimOf(1))
	cmd := job.Complete{Claim: claimed.Claim, Outcomes: []job.Outcome{{ID: made.Job(0), Code: job.Fail, ExitCode: 400, DelayMs: -1}}}
	testkit.Must2(e.Complete(ctx, cmd))(t)
	end()
	if len(ends) != 1 || ends[0].ID != made.Batch || ends[0].Status != job.BatchFailed || ends[0].Unfinished != 2 || ends[0].EndedAt < ends[0].CreatedAt {
		t.Errorf("%+v", ends)
	}

	second := newMemoryLog()
	second.records = slices.Clone(first.records)
	_, end = begin(second) // its store is empty, so it applies everything
	end()
	testkit.Equal(t, len(ends), 0, "after a start")
}

// TestReadThatBeginsDuringTheReplay: a read that waits for the end of the log is answered when the log is replayed, even
// if no further command arrives.
func TestReadThatBeginsDuringTheReplay(t *testing.T) {
	open := func(dir string) *Engine {
		return testkit.Must(Open(Options{Dir: dir}))(t)
	}
	first, second := t.TempDir(), t.TempDir()
	e := open(first)
	end := serve(t, e)
	var last Receipt
	for range 20 {
		_, last = testkit.Must2(e.Create(t.Context(), lines(10)))(t)
	}
	testkit.NoError(t, os.CopyFS(JournalDir(second), os.DirFS(JournalDir(first)))) // as if the process was killed
	end()

	e = open(second)
	read := make(chan error, 1)
	go func() { read <- e.CatchUp(t.Context(), last.Seq) }()
	end = serve(t, e)
	defer end()
	testkit.Check(t, <-read)
}
