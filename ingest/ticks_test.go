package ingest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/wal"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// TestSlowDisk: a disk that stalls again and again does not keep the jobs of a dead runner from coming back.
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
		if _, _, err := e.Create(ctx, c); err != nil {
			t.Fatal(err)
		}
		_, jobs, _, err := e.Claim(ctx, claimOf(1), 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 { // something else becomes due each second
			later := lines(1)
			later.Groups[0].Type, later.Groups[0].RunAt = "later", e.Now()+int64(i)*1000
			if _, _, err := e.Create(ctx, later); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		if doc := status(t, e, jobs[0].ID); doc.Status != job.Pending {
			t.Errorf("nine seconds after the claim: %+v, %d graces", doc, e.counters.graces.Load())
		}
		stop()
	})
}

// TestTicksTakeTheirShare: whatever a row costs, ticks come to take the time they should, and leave others theirs.
func TestTicksTakeTheirShare(t *testing.T) {
	for _, row := range []time.Duration{500, 2 * time.Microsecond, 4 * time.Microsecond} {
		rows := firstTickRows
		for range 20 {
			rows = tickRows(rows, time.Duration(rows)*row, false, true)
		}
		if applied := time.Duration(rows) * row; applied > 11*idleTick/10 || applied < 9*idleTick/10 && rows < job.MaxTickRows {
			t.Errorf("rows of %v: a tick of %d rows takes %v with nobody else there", row, rows, applied)
		}
		rows = tickRows(rows, time.Duration(rows)*row, true, true) // somebody comes: one tick later
		if applied := time.Duration(rows) * row; applied > 11*busyTick/10 || applied < busyTick/2 {
			t.Errorf("rows of %v: a tick of %d rows takes %v beside others", row, rows, applied)
		}
	}
	for _, test := range []struct {
		rows         int
		applied      time.Duration
		others, more bool
		want         int
	}{
		{1000, 0, false, true, 2000},                            // no more than twice as many
		{job.MaxTickRows, 1, false, true, job.MaxTickRows},      // nor than a command may name
		{1000, time.Minute, true, true, minTickRows},            // a disk that stalled
		{job.MaxTickRows, 1000, false, false, firstTickRows},    // that one had little to do
		{400, 100 * time.Microsecond, true, false, 800},         // so had that one
		{minTickRows, 10 * time.Microsecond, false, false, 400}, // and that one
		{1000, 2 * time.Millisecond, true, true, 500},           // too long beside others
		{1000, 2 * time.Millisecond, false, true, 2000},         // and not too long for nobody
	} {
		if got := tickRows(test.rows, test.applied, test.others, test.more); got != test.want {
			t.Errorf("%+v: %d rows", test, got)
		}
	}
	for _, test := range []struct {
		others, sweeping bool
		want             time.Duration
	}{{false, true, 0}, {false, false, 0}, {true, false, 3}, {true, true, 6}} {
		if got := tickRest(3, test.others, test.sweeping); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestFarTimersDoNotTick: a timer further away than a time.Duration can tell is not due, and causes no ticks.
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
				if _, _, err := e.Create(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				for range 3 { // in weeks, whatever else had a timer has been dealt with
					ahead.Add(15 * 86_400_000)
					time.Sleep(time.Minute)
				}
				before := e.counters.ticks.Load()
				time.Sleep(time.Minute)
				if ticks := e.counters.ticks.Load() - before; ticks > 0 {
					t.Errorf("%d ticks in a minute in which nothing was due", ticks)
				}
				if due := e.untilDue(); due <= 0 || due > maxSleep {
					t.Errorf("the next timer is due in %v", due)
				}
				stop()
			})
		})
	}
}
