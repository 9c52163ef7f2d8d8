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
		if int64(len(b)) != f.Size {
			t.Errorf("%s has %d bytes, and %d were announced", f.Path, len(b), f.Size)
		}
		to := filepath.Join(dir, f.Path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o750), os.WriteFile(to, b, 0o640))
	}))
	return dir
}

// isReplaced reports whether the checkpoint has a table that the store no longer has.
func isReplaced(t *testing.T, dir string) bool {
	tables, err := filepath.Glob(filepath.Join(checkpointDir(dir), "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables of the checkpoint: %v, %v", tables, err)
	}
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
	if s.Last < before.Seq || s.Cursor > s.Last {
		t.Errorf("the snapshot has the cursor %d and the last seq %d; %d was acknowledged", s.Cursor, s.Last, before.Seq)
	}
	kept := e.log.First()
	if _, err := e.Snapshot(); !errors.Is(err, ErrBackupRunning) {
		t.Errorf("a second snapshot: %v", err)
	}
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
		if first := e.log.First(); first > max(s.Cursor, 1) {
			t.Errorf("the journal begins at %d, and the snapshot needs record %d", first, s.Cursor)
		}
	})
	if !strings.HasPrefix(paths[1], "journal/") || !slices.ContainsFunc(paths, func(p string) bool { return strings.HasSuffix(p, ".sst") }) {
		t.Errorf("the files are %v", paths)
	}
	testkit.NoError(t, s.Close())
	e.cut(0)
	if first := e.log.First(); first <= kept || first <= s.Last {
		t.Errorf("after the snapshot the journal still begins at %d; before it at %d", first, kept)
	}
	if _, err := os.Stat(checkpointDir(dir)); !os.IsNotExist(err) {
		t.Errorf("the checkpoint is left: %v", err)
	}
	found, err := Inspect(t.Context(), copied, func(p string) bool { t.Error(p); return true })
	if err != nil || found.Problems > 0 || found.Applied < s.Last || found.Jobs["pending"] != 100*100 {
		t.Errorf("the copy: %+v, %v; it must have the commands up to %d", found, err, s.Last)
	}
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
		if err != nil {
			t.Fatal(name, err)
		}
		n := 0
		err = s.Files(ctx, func(f *SnapshotFile) error {
			if n++; n == 2 {
				c.cause(cancel)
			}
			_, err := io.Copy(io.Discard, f)
			return err
		})
		if !errors.Is(err, c.want) || n != 2 {
			t.Errorf("%s: %v after %d files", name, err, n)
		}
		testkit.Check(t, s.Close())
		if c.want == ErrDiskFull {
			if _, err := e.Snapshot(); !errors.Is(err, ErrDiskFull) {
				t.Errorf("a snapshot on a full disk: %v", err)
			}
		}
		lookAt(50 * gib)
		cancel()
	}
	s := testkit.Must(e.Snapshot())(t)
	stop()
	if err := s.Files(t.Context(), func(f *SnapshotFile) error { _, err := io.Copy(io.Discard, f); return err }); !errors.Is(err, ErrClosed) {
		t.Errorf("after the stop: %v", err)
	}
	testkit.Check(t, s.Close())
	if _, err := e.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("a snapshot after the stop: %v", err)
	}
}

// TestCheckpointIsRemovedAtAStart: a start removes the snapshot files of a killed process.
func TestCheckpointIsRemovedAtAStart(t *testing.T) {
	dir := t.TempDir()
	e, stop := startWith(t, Options{Dir: dir})
	createAll(t, e, 1, 10)
	testkit.Must(e.Snapshot())(t) // never closed
	if names, err := os.ReadDir(checkpointDir(dir)); err != nil || len(names) == 0 {
		t.Fatalf("the checkpoint: %v, %v", names, err)
	}
	stop()
	e, _ = startWith(t, Options{Dir: dir})
	if _, err := os.Stat(checkpointDir(dir)); !os.IsNotExist(err) {
		t.Errorf("the checkpoint is left: %v", err)
	}
	createAll(t, e, 1, 10)
}
