package ingest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

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
	if _, err := Rebuild(t.Context(), dir, base, func(uint64, uint64) {}); err != nil {
		t.Fatalf("rebuild from a base: %v", err)
	}
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
