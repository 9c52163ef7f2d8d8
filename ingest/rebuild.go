package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Rebuilt is the result of a rebuild.
type Rebuilt struct {
	Commands uint64 // applied
	Cursor   uint64 // of the new store
	Kept     string // the directory of the old store; "" if there was none
}

// Rebuild makes a new store for a data directory from a base (a store directory, such as that of a backup; "" for none)
// and the journal after it. It checks the new store before it puts it in the place of the old one, which is kept beside
// it. It calls progress after each 4 MiB with the last seq that was applied and the last seq of the journal.
func Rebuild(ctx context.Context, data, base string, progress func(seq, last uint64)) (_ Rebuilt, err error) {
	lock, err := Lock(data)
	if err != nil {
		return Rebuilt{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	fresh := StoreDir(data) + ".rebuild"
	if err := os.RemoveAll(fresh); err != nil { // what an interrupted rebuild left
		return Rebuilt{}, fmt.Errorf("clear %s: %w", fresh, err)
	}
	if base != "" {
		if err := copyDurably(fresh, base, journal.SyncPath); err != nil {
			return Rebuilt{}, fmt.Errorf("copy base: %w", err)
		}
	}
	result, err := rebuild(ctx, JournalDir(data), fresh, progress)
	if err != nil {
		return Rebuilt{}, errors.Join(fmt.Errorf("rebuild store: %w", err), os.RemoveAll(fresh))
	}
	if _, err := os.Stat(StoreDir(data)); err == nil {
		result.Kept = unused(fmt.Sprintf("%s.before-%d", StoreDir(data), result.Cursor))
		if err := os.Rename(StoreDir(data), result.Kept); err != nil {
			return Rebuilt{}, fmt.Errorf("keep the old store: %w", err)
		}
	}
	if err := os.Rename(fresh, StoreDir(data)); err != nil {
		return Rebuilt{}, fmt.Errorf("put the new store in place: %w", err)
	}
	return result, journal.SyncPath(data)
}

// copyDurably copies a directory. When it returns, every file and every name of the copy is on disk. Pebble syncs the
// tables that it writes, not those that it finds; and once the next start has cut the journal, only these tables have
// what is in them.
func copyDurably(to, from string, sync func(path string) error) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		return cmp.Or(err, sync(path))
	})
}

// unused returns path, or path with a number if path exists: an earlier rebuild may have kept its store there.
func unused(path string) string {
	free := path
	for n := 2; ; n++ {
		if _, err := os.Lstat(free); os.IsNotExist(err) {
			return free
		}
		free = fmt.Sprintf("%s-%d", path, n)
	}
}

func rebuild(ctx context.Context, journalDir, storeDir string, progress func(seq, last uint64)) (result Rebuilt, err error) {
	if _, err := os.Stat(journalDir); err != nil {
		return result, err
	}
	s, err := store.Open(storeDir, store.Options{})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := openLocalLog(journal.Options{Dir: journalDir, Applied: s.Applied(), StoreJournal: s.Journal(), AllowClockAhead: true})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := s.Adopt(l.UUID()); err != nil {
		return result, err
	}
	last := l.Status().Synced
	r := replayer{store: s, commit: s.Commit, progress: func(seq uint64) { progress(seq, last) }}
	if result.Commands, err = r.log(ctx, l); err != nil {
		return result, err
	}
	result.Cursor = s.Applied()
	progress(result.Cursor, last)
	first := ""
	problems, err := s.Check(func(problem string) bool { first = problem; return false })
	if err != nil {
		return result, err
	}
	if problems > 0 {
		return result, fmt.Errorf("the rebuilt store does not check: %s", first)
	}
	return result, s.FlushWait()
}
