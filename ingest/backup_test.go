package ingest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// smallVolumes returns the options of an engine with small volumes, so that it often begins a new one.
func smallVolumes(dir string) Options {
	return Options{Dir: dir, Journal: journal.Options{SegmentBytes: 4 << 10, VolumeBytes: 16 << 10}, Store: store.Options{MemtableBytes: 256 << 10}}
}

func createAll(t *testing.T, e *Engine, creates, jobs int) (last Receipt) {
	t.Helper()
	for range creates {
		_, last = testkit.Must2(e.Create(t.Context(), lines(jobs)))(t)
	}
	testkit.NoError(t, e.CatchUp(t.Context(), last.Seq))
	return last
}

// copyOf copies the files of a snapshot. between is called before each file.
func copyOf(t *testing.T, s *Snapshot, between func(path string)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	testkit.NoError(t, s.Files(t.Context(), func(f *SnapshotFile) error {
		between(f.Path)
		b, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		testkit.Equal(t, int64(len(b)), f.Size, f.Path, "has", len(b), "bytes were announced")
		to := filepath.Join(dir, f.Path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.WriteFile(to, b, 0o640))
	}))
	return dir
}

// isReplaced reports whether the checkpoint has a table that the store no longer has.
func isReplaced(t *testing.T, dir string) bool {
	tables := testkit.Must(filepath.Glob(filepath.Join(checkpointDir(dir), "*.sst")))(t)
	testkit.MustHold(t, len(tables) != 0, "tables of the checkpoint", tables)
	return slices.ContainsFunc(tables, func(path string) bool {
		_, err := os.Stat(filepath.Join(StoreDir(dir), filepath.Base(path)))
		return os.IsNotExist(err)
	})
}

// TestSnapshotKeepsWhatItNeeds: while a snapshot is read, the engine removes volumes of the journal and compacts its
// store, but the snapshot keeps all of its files. Afterwards the kept volumes are removed.
func TestSnapshotKeepsWhatItNeeds(t *testing.T) {
	dir := t.TempDir()
	e, _ := startWith(t, smallVolumes(dir))
	createAll(t, e, 50, 100)
	testkit.NoError(t, e.FlushWait())
	before := createAll(t, e, 50, 100) // some of the journal is not flushed
	s := testkit.Must(e.Snapshot())(t)
	testkit.Holds(t, s.Last >= before.Seq &&
		s.Cursor <= s.Last, "the snapshot has the cursor", s.Cursor, "and the last seq", s.Last, before.Seq, "was acknowledged")
	kept := e.log.First()
	testkit.Fails(e.Snapshot())(t, ErrBackupRunning)
	var paths []string
	copied := copyOf(t, s, func(path string) {
		if paths = append(paths, path); len(paths) > 2 {
			return
		}
		for { // until a compaction has replaced a table of the snapshot
			createAll(t, e, 10, 100)
			testkit.NoError(t, e.FlushWait())
			if isReplaced(t, dir) {
				break
			}
		}
		e.cut(0)
		first := e.log.First()
		testkit.Holds(t, first <= max(s.Cursor, 1), "the journal begins at", first, "and the snapshot needs record", s.Cursor)
	})
	testkit.Holds(t, strings.HasPrefix(paths[1], "journal/") &&
		slices.ContainsFunc(paths, func(p string) bool { return strings.HasSuffix(p, ".sst") }), "the files are", paths)
	testkit.NoError(t, s.Close())
	e.cut(0)
	first := e.log.First()
	testkit.Holds(t, first > kept && first > s.Last, "after the snapshot the journal still begins at", first, "before it at", kept)
	testkit.Fails(os.Stat(checkpointDir(dir)))(t, os.ErrNotExist)
	found, err := Inspect(t.Context(), copied, func(p string) bool { t.Error(p); return true })
	testkit.Holds(t, err == nil && found.Problems == 0 && found.Applied >= s.Last && found.Jobs["pending"] == 100*100,
		"the copy", found, err, "it must have the commands up to", s.Last)
	again := testkit.Must(e.Snapshot())(t)
	testkit.Check(t, errors.Join(again.Close(), again.Close()))
}

// TestSnapshotEnds: a snapshot ends when its reader stops, when disk space becomes low, and when the engine stops. A new
// snapshot is refused while disk space is low.
func TestSnapshotEnds(t *testing.T) {
	const gib = 1 << 30
	var free atomic.Uint64
	free.Store(50 * gib)
	o := Options{Dir: t.TempDir(), Space: func(string) (uint64, uint64, error) { return free.Load(), 100 * gib, nil }}
	e, stop := startWith(t, o)
	createAll(t, e, 3, 10)
	lookAt := func(n uint64) { free.Store(n); e.disk.Look() }
	for name, c := range map[string]struct {
		cause func(cancel func())
		want  error
	}{
		"low disk":    {func(func()) { lookAt(gib / 4) }, ErrDiskFull},
		"reader gone": {func(cancel func()) { cancel() }, context.Canceled},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := e.Snapshot()
		testkit.NoError(t, err, name)
		n := 0
		err = s.Files(ctx, func(f *SnapshotFile) error {
			if n++; n == 2 {
				c.cause(cancel)
			}
			_, err := io.Copy(io.Discard, f)
			return err
		})
		testkit.Holds(t, errors.Is(err, c.want) && n == 2, name, err, "after", n, "files")
		testkit.Check(t, s.Close())
		if c.want == ErrDiskFull {
			testkit.Fails(e.Snapshot())(t, ErrDiskFull)
		}
		lookAt(50 * gib)
		cancel()
	}
	s := testkit.Must(e.Snapshot())(t)
	stop()
	testkit.Failed(t, s.Files(t.Context(), func(f *SnapshotFile) error { _, err := io.Copy(io.Discard, f); return err }), ErrClosed)
	testkit.Check(t, s.Close())
	testkit.Fails(e.Snapshot())(t, ErrClosed)
}

// TestCheckpointIsRemovedAtAStart: a start removes the snapshot files of a killed process.
func TestCheckpointIsRemovedAtAStart(t *testing.T) {
	dir := t.TempDir()
	e, stop := startWith(t, Options{Dir: dir})
	createAll(t, e, 1, 10)
	testkit.Must(e.Snapshot())(t) // never closed
	names := testkit.Must(os.ReadDir(checkpointDir(dir)))(t)
	testkit.MustHold(t, len(names) != 0, "the checkpoint", names)
	stop()
	e, _ = startWith(t, Options{Dir: dir})
	testkit.Fails(os.Stat(checkpointDir(dir)))(t, os.ErrNotExist)
	createAll(t, e, 1, 10)
}
