package ingest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// TestSlowDisk: even if a disk stalls repeatedly, the jobs of a runner that has ended are handed out again in time.
func TestSlowDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		slow := false
		o := Options{Dir: dir}
		o.Journal.Hooks.Sync = func(l *wal.Log) error {
			if slow {
				time.Sleep(600 * time.Millisecond)
			}
			return l.Sync()
		}
		e, stop := startWith(t, o)
		ctx := t.Context()
		slow = true
		c := lines(1)
		c.Groups[0].LeaseMs = 3000
		testkit.Must2(e.Create(ctx, c))(t)
		_, jobs := mustClaim(t, e, claimOf(1))
		for i := range 10 { // another job becomes due each second
			later := lines(1)
			later.Groups[0].Type, later.Groups[0].RunAt = "later", e.Now()+int64(i)*1000
			testkit.Must2(e.Create(ctx, later))(t)
		}
		time.Sleep(3 * time.Second)
		if doc := status(t, e, jobs[0].ID); doc.Status != job.Pending {
			t.Errorf("nine seconds after the claim: %+v, %d graces", doc, e.counters.graces.Load())
		}
		stop()
	})
}

// TestTicksTakeTheirShare: after some ticks, each tick takes its target time, however long a row takes.
func TestTicksTakeTheirShare(t *testing.T) {
	for _, row := range []time.Duration{500, 2 * time.Microsecond, 4 * time.Microsecond} {
		rows := firstTickRows
		for range 20 {
			rows = tickDone{rows: rows, applied: time.Duration(rows) * row, moreDue: true}.nextRows()
		}
		if applied := time.Duration(rows) * row; applied > 11*idleTick/10 || applied < 9*idleTick/10 && rows < job.MaxTickRows {
			t.Errorf("rows of %v: a tick of %d rows takes %v while no other command waits", row, rows, applied)
		}
		// The first tick after another command was journaled has the new size.
		rows = tickDone{rows: rows, applied: time.Duration(rows) * row, contended: true, moreDue: true}.nextRows()
		if applied := time.Duration(rows) * row; applied > 11*busyTick/10 || applied < busyTick/2 {
			t.Errorf("rows of %v: a tick of %d rows takes %v while other commands wait", row, rows, applied)
		}
	}
	for _, test := range []struct {
		name string
		done tickDone
		want int
	}{
		{"at most twice as many", tickDone{rows: 1000, moreDue: true}, 2000},
		{"at most as many as a command may have", tickDone{rows: job.MaxTickRows, applied: 1, moreDue: true}, job.MaxTickRows},
		{"the disk stalled", tickDone{rows: 1000, applied: time.Minute, contended: true, moreDue: true}, minTickRows},
		{"nothing left due", tickDone{rows: job.MaxTickRows, applied: 1000}, firstTickRows},
		{"nothing left due, 400 rows", tickDone{rows: 400, applied: 100 * time.Microsecond, contended: true}, 800},
		{"nothing left due, few rows", tickDone{rows: minTickRows, applied: 10 * time.Microsecond}, 400},
		{"too long beside other commands", tickDone{rows: 1000, applied: 2 * time.Millisecond, contended: true, moreDue: true}, 500},
		{"not too long alone", tickDone{rows: 1000, applied: 2 * time.Millisecond, moreDue: true}, 2000},
	} {
		testkit.Equal(t, test.done.nextRows(), test.want, test.name, "rows")
	}
	for done, want := range map[tickDone]time.Duration{
		{applied: 3, moreDue: true, sweeping: true}:                  0,
		{applied: 3, moreDue: true}:                                  0,
		{applied: 3, moreDue: true, contended: true}:                 3,
		{applied: 3, moreDue: true, contended: true, sweeping: true}: 6,
		{applied: 3}: tickEvery,
	} {
		testkit.Equal(t, done.rest(), want, done)
	}
}

// TestFarTimersDoNotTick: a timer that is further away than the longest time.Duration is not due, and causes no ticks.
func TestFarTimersDoNotTick(t *testing.T) {
	fields := map[string]func(g *job.Group){
		"run_at":     func(g *job.Group) { g.RunAt = job.MaxTimeMs },
		"expires_at": func(g *job.Group) { g.ExpiresAt = job.MaxTimeMs },
		"both":       func(g *job.Group) { g.RunAt, g.ExpiresAt = job.MaxTimeMs, job.MaxTimeMs },
	}
	for name, set := range fields {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				e, stop := startWith(t, Options{Dir: dir, AllowClockAhead: true, Journal: journal.Options{
					Clock: func() int64 { return time.Now().UnixMilli() + ahead.Load() },
				}})
				c := lines(1)
				set(&c.Groups[0])
				testkit.Must2(e.Create(t.Context(), c))(t)
				for range 3 { // after weeks no other timer is left
					ahead.Add(15 * 86_400_000)
					time.Sleep(time.Minute)
				}
				before := e.counters.ticks.Load()
				time.Sleep(time.Minute)
				ticks := e.counters.ticks.Load() - before
				testkit.Holds(t, ticks == 0, ticks, "ticks in a minute in which nothing was due")
				due := e.untilDue()
				testkit.Holds(t, due > 0 && due <= maxSleep, "the next timer is due in", due)
				stop()
			})
		})
	}
}
