package store

import (
	"testing"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// TestTicksCountPages: the pages of jobs whose retention ends count as rows of a tick.
func TestTicksCountPages(t *testing.T) {
	rules := row.RulesAt(job.Level)
	rules.PageBytes = 1
	b := memory.StandardBounds
	b.Rules = &rules
	f := &feeder{t: t, s: mustOpen(t, Options{bounds: &b})}
	const pages = 200
	for range 100 {
		create := plainCreate("a", "x", pages, 1)
		create.Groups[0].RetentionMs = 1
		f.Apply(create)
	}
	f.Apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"})
	mustCommit(t, f.s)
	f.seq += 10
	for ticks := 0; f.s.machine.Counts.Total() > 0; ticks++ {
		if got := f.s.costOf(func() { f.Apply(job.Tick{}) }); got.writes > rules.CommandRows+pages+row.TickSpanRows || ticks > 100 {
			t.Fatalf("tick %d: %+v", ticks, got)
		}
		mustCommit(t, f.s)
	}
}

// TestPurgedBatchesGoInSteps: a batch of many groups is deleted with its last line. Ticks remove its rows, and do other
// due work in between.
func TestPurgedBatchesGoInSteps(t *testing.T) {
	s := mustOpen(t, Options{})
	f := &feeder{t: t, s: s}
	for _, groups := range []int{8, 9, job.MaxGroups, job.MaxGroups} {
		create := &job.Create{Frame: job.NoFrame}
		for range groups {
			g := plainGroup("a", "x", 1)
			g.Kind, g.RetentionMs = job.Nothing, 0
			create.Groups = append(create.Groups, g)
		}
		f.Apply(create)
	}
	rows := func(table byte) (n int) {
		mustCommit(t, s)
		v := s.db.View()
		defer v.Close()
		v.Scan(string(table), string(table+1), func(string, []byte) bool { n++; return true })
		return n
	}
	for f.s.machine.Counts.Total() > 0 {
		f.Apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"})
		f.Apply(job.Tick{})
	}
	if b, c, left := rows(row.BatchTable), rows(row.CountsTable), rows(row.PurgedBatchTable); b != 0 || c != 0 || left != 2 {
		t.Fatalf("%d batches and %d counts are there, and %d purged batches are left", b, c, left)
	}
	for _, id := range []job.ID{jobID(2, 2, 0), jobID(3, 3, 5)} {
		if _, err := s.Batch(id.WithLine(0)); err == nil {
			t.Errorf("the purged batch of %v is found", id)
		}
		if _, err := s.Job(id); err == nil {
			t.Errorf("the purged job %v is found", id)
		}
	}
	create := plainCreate("a", "x", 1, 1)
	create.Groups[0].RunAt = startAt + int64(f.seq) + 2
	f.Apply(create)
	f.seq++
	if f.Apply(job.Tick{}); s.machine.Counts[job.Pending] != 1 {
		t.Error("a job whose time has come waits for purged batches")
	}
	for ticks := 0; s.machine.Meta.PurgedAt != 0; ticks++ {
		sound(t, s)
		if got := s.costOf(func() { f.Apply(job.Tick{}) }); got.writes > 500 || ticks > 30 {
			t.Fatalf("tick %d: %+v", ticks, got)
		}
	}
	if spans, groups, left := rows(row.SpanTable), rows(row.GroupTable), rows(row.PurgedBatchTable); spans != 1 || groups != 0 || left != 0 {
		t.Errorf("%d spans, %d pages of groups and %d purged batches are left", spans, groups, left)
	}
}
