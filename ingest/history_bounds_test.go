package ingest

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// TestHistoryBounds: a process that leads proposes its bounds of history if the log has others, and no other process does.
func TestHistoryBounds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		e := startOn(t, l, Options{Dir: dir, History: 1 << 30, HistoryAge: time.Hour})
		bounds := func() [2]int64 { h := e.Stats().History; return [2]int64{h.MaxBytes, h.MaxAgeMs} }
		time.Sleep(time.Second)
		expectVerbs(t, l, "before it led")
		l.lead(1)
		time.Sleep(time.Second)
		expectVerbs(t, l, "in a first term", "level", "history")
		testkit.Equal(t, bounds(), [2]int64{1 << 30, time.Hour.Milliseconds()})
		l.lead(2)
		time.Sleep(time.Second)
		expectVerbs(t, l, "in a second term")
		l.lead(0)
		l.other(job.SetHistory{Bytes: 2 << 30, AgeMs: time.Hour.Milliseconds()})
		time.Sleep(time.Second)
		expectVerbs(t, l, "while another process led")
		testkit.Equal(t, bounds(), [2]int64{2 << 30, time.Hour.Milliseconds()})
		l.lead(3)
		time.Sleep(time.Second)
		expectVerbs(t, l, "after another process led", "history")
		testkit.Equal(t, bounds(), [2]int64{1 << 30, time.Hour.Milliseconds()})
		l.other(job.SetHistory{Bytes: 2 << 30, AgeMs: time.Hour.Milliseconds()}) // stored late
		time.Sleep(2 * historyEvery)
		expectVerbs(t, l, "after the command of an earlier leader", "history")
		testkit.Equal(t, bounds(), [2]int64{1 << 30, time.Hour.Milliseconds()})
		time.Sleep(10 * historyEvery)
		expectVerbs(t, l, "later")
	})
}

// TestHistoryOfDisk: without a bound of its own, history has a twentieth of the disk, at most 4 GiB.
func TestHistoryOfDisk(t *testing.T) {
	const gib = 1 << 30
	for total, want := range map[uint64]int64{20 * gib: gib, 1000 * gib: 4 * gib, 1 << 20: job.MinHistoryBytes} {
		e, _ := startWith(t, Options{Dir: t.TempDir(), History: HistoryOfDisk, HistoryAge: 2 * time.Hour, Space: func(string) (uint64, uint64, error) { return total, total, nil }})
		testkit.Eventually(t, "history has the bounds of the disk", func() bool {
			h := e.Stats().History
			return h.MaxBytes == want && h.MaxAgeMs == 2*time.Hour.Milliseconds()
		})
	}
}

// TestHistoryGoesFromALowDisk: while the disk has little space, the oldest part of history is deleted, and after a while the next one,
// until history is small. No job is lost.
func TestHistoryGoesFromALowDisk(t *testing.T) {
	const total = 2 << 20 // so 256 KiB are the reserve, and below 384 KiB history makes space
	dir := t.TempDir()
	var free atomic.Uint64
	free.Store(total / 2)
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		e := startOn(t, l, Options{Dir: dir, Store: store.Options{Small: true}, Space: func(string) (uint64, uint64, error) { return free.Load(), total, nil }})
		l.lead(1)
		for range 400 {
			testkit.Must2(e.Create(context.Background(), lines(1)))(t)
		}
		trims := func() (n int) {
			for _, verb := range l.verbs() {
				if verb == "history" {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		testkit.Equal(t, trims(), 0, "commands while there was space")
		full := e.Stats().History
		free.Store(total * 5 / 32) // creates are accepted
		time.Sleep(historyEvery * 3 / 2)
		testkit.Equal(t, trims(), 1)
		less := e.Stats().History
		testkit.Holds(t, less.Bytes < full.Bytes && less.First > full.First, full, less)
		testkit.Must2(e.Create(context.Background(), lines(1)))(t)
		time.Sleep(20 * historyEvery)
		n := trims()
		testkit.Holds(t, n > 0 && n < 20, n, "parts were deleted")
		least := e.Stats().History
		testkit.Holds(t, least.Bytes < less.Bytes && least.First > less.First && least.Bytes > 0, least)
		free.Store(total / 2)
		time.Sleep(time.Minute)
		testkit.Equal(t, trims(), 0, "commands after there was space again")
		testkit.Equal(t, e.Stats().Jobs["pending"], 401)
	})
}

// TestHistoryEndsOnAQuietServer: the oldest part of history is deleted when it is too old, also if no command moves jobs.
func TestHistoryEndsOnAQuietServer(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newMemoryLog()
		e := startOn(t, l, Options{Dir: dir, History: 1 << 30, HistoryAge: time.Hour, Store: store.Options{Small: true}})
		l.lead(1)
		for range 4 {
			testkit.Must2(e.Create(context.Background(), lines(1)))(t)
			time.Sleep(10 * time.Minute)
		}
		before := e.Stats().History
		time.Sleep(2 * time.Hour)
		after := e.Stats().History
		testkit.Holds(t, after.First > before.First && after.Bytes > 0 && after.Bytes < before.Bytes, before, after)
		l.verbs()
		time.Sleep(2 * time.Hour)
		expectVerbs(t, l, "with only the newest part")
	})
}

// TestShareOfTheDisk: the bound stays while the size of the disk changes little, and there is none for a disk that cannot be read.
func TestShareOfTheDisk(t *testing.T) {
	const gib = 1 << 30
	var total atomic.Uint64
	e, _ := startWith(t, Options{Dir: t.TempDir(), Space: func(string) (uint64, uint64, error) { return total.Load(), total.Load(), nil }})
	for _, c := range []struct {
		total         uint64
		present, want int64
	}{
		{0, gib, 0}, {20 * gib, 0, gib}, {20 * gib, gib - gib/9, gib - gib/9}, {20 * gib, gib + gib/9, gib + gib/9}, {20 * gib, gib - gib/8, gib}, {20 * gib, gib + gib/8, gib},
		{200 * gib, 256 << 20, 4 * gib}, {1, 0, job.MinHistoryBytes}, {20, 0, job.MinHistoryBytes},
	} {
		total.Store(c.total)
		e.disk.Look()
		if c.total == 1 {
			c.want = 0 // a twentieth of it is nothing
		}
		testkit.Equal(t, e.historyOfDisk(c.present), c.want, c.total, c.present)
	}
}
