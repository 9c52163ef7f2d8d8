package ingest

import (
	"slices"
	"sync"
	"testing"

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

// TestRunEndsAreReportedOnce: an engine reports the end of a run before it answers the command that ended it. Another
// engine that begins with a log that has the command does not report it again, and reports what happens then.
func TestRunEndsAreReportedOnce(t *testing.T) {
	ctx := t.Context()
	begin := func(l *memoryLog) (*Engine, *runEndsOf, func()) {
		var ends runEndsOf
		l.lead(1)
		e, err := Open(Options{Dir: t.TempDir(), OnRunEnds: ends.add, openLog: func(journal.Options) (Log, error) { return l, nil }})
		if err != nil {
			t.Fatal(err)
		}
		return e, &ends, serve(t, e)
	}
	first := newMemoryLog()
	e, ends, end := begin(first)
	if _, _, err := e.Create(ctx, lines(10)); err != nil {
		t.Fatal(err)
	}
	claimed, _, _, err := e.Claim(ctx, claimOf(4), 0)
	if err != nil || len(ends.all()) != 0 {
		t.Fatal(ends.all(), err)
	}
	if _, _, err := e.Complete(ctx, completeOf(claimed.Claim)); err != nil {
		t.Fatal(err)
	}
	if got := ends.all(); len(got) != 1 || got[0].Jobs != 4 || got[0].Outcome != "ok" || got[0].Claim != claimed.Claim || got[0].Runner != "r1" {
		t.Errorf("%+v", got)
	}
	end()

	second := newMemoryLog()
	second.records = slices.Clone(first.records)
	e, ends, end = begin(second) // its store is empty, so it applies everything
	defer end()
	if got := ends.all(); len(got) != 0 {
		t.Errorf("after a start: %+v", got)
	}
	if claimed, _, _, err = e.Claim(ctx, claimOf(4), 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Complete(ctx, completeOf(claimed.Claim)); err != nil {
		t.Fatal(err)
	}
	if got := ends.all(); len(got) != 1 || got[0].Claim != claimed.Claim {
		t.Errorf("%+v", got)
	}
}
