package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Rebuilt is the result of a rebuild.
type Rebuilt struct {
	Commands uint64 // number of commands that were applied
	Cursor   uint64 // cursor of the new store
	Kept     string // the directory of the old store; "" without an old store
}

const (
	// freshSuffix is the suffix of a store while a rebuild makes it.
	freshSuffix = ".rebuild"
	// finishedSuffix is the suffix of a store that a rebuild has made and checked, until it replaces the old store.
	finishedSuffix = ".rebuilt"
)

// Rebuild makes a new store for a data directory. It copies the base, which is a store directory, for example of a
// backup, and applies the journal after it. With base "" it applies the whole journal. It checks the new store before it
// replaces the old store, which it keeps in the same directory. It calls progress after each 4 MiB with the last seq that
// was applied and the last seq of the journal.
//
// The error is an ErrNoBase if base is not a store directory.
func Rebuild(ctx context.Context, data, base string, progress func(seq, last uint64)) (_ Rebuilt, err error) {
	lock, err := Lock(data)
	if err != nil {
		return Rebuilt{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := finishRebuild(data); err != nil {
		return Rebuilt{}, err
	}
	if err := checkBase(data, base); err != nil {
		return Rebuilt{}, err
	}
	fresh := StoreDir(data) + freshSuffix
	if err := os.RemoveAll(fresh); err != nil { // an interrupted rebuild may have left it
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
	}
	for _, r := range renames(data, result.Kept) {
		if err := r.do(data); err != nil {
			return Rebuilt{}, err
		}
	}
	return result, nil
}

// rename is one step of replacing a store.
type rename struct{ from, to string }

func (r rename) do(data string) error {
	if err := os.Rename(r.from, r.to); err != nil {
		return fmt.Errorf("put the new store in place: %w", err)
	}
	return journal.SyncPath(data)
}

// renames returns the steps by which a new store replaces the old store, which is renamed to kept ("" without an old
// store). Each step is durable before the next. If the process is killed before the second step, the old store is still
// in its place. If it is killed before the third, finishRebuild completes it.
func renames(data, kept string) []rename {
	finished := StoreDir(data) + finishedSuffix
	steps := []rename{{StoreDir(data) + freshSuffix, finished}}
	if kept != "" {
		steps = append(steps, rename{StoreDir(data), kept})
	}
	return append(steps, rename{finished, StoreDir(data)})
}

// finishRebuild completes a rebuild that was killed while it replaced the store, and reports whether it did. If a store
// is in place, a finished store beside it is removed, since commands may have been applied to the store in place since.
func finishRebuild(data string) (done bool, err error) {
	finished := StoreDir(data) + finishedSuffix
	if _, err := os.Stat(finished); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("finish the rebuild: %w", err)
	}
	switch _, err := os.Stat(StoreDir(data)); {
	case err == nil:
		if err := os.RemoveAll(finished); err != nil {
			return false, fmt.Errorf("remove what a rebuild has left: %w", err)
		}
		return false, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("finish the rebuild: %w", err)
	}
	return true, rename{finished, StoreDir(data)}.do(data)
}

// checkBase returns an ErrNoBase if base is not a store directory. The error lists the store directories in the data
// directory and beside the base.
func checkBase(data, base string) error {
	if base == "" {
		return nil
	}
	reason := "is not the directory of a store"
	switch _, err := os.Stat(base); {
	case errors.Is(err, fs.ErrNotExist):
		reason = "does not exist"
	case err != nil:
		return fmt.Errorf("base: %w", err)
	case isUnfinished(filepath.Clean(base)):
		reason = "is what a rebuild that did not finish has left"
	case isStore(base):
		return nil
	}
	found := "no store was found there or in the data directory"
	stores := append(storesIn(filepath.Dir(base)), storesIn(data)...)
	slices.Sort(stores)
	if stores = slices.Compact(stores); len(stores) > 0 {
		found = "stores that exist: " + strings.Join(stores, ", ")
	}
	return fmt.Errorf("%w: %s %s; %s", ErrNoBase, base, reason, found)
}

// isUnfinished reports whether a directory has the name of an unfinished rebuild.
func isUnfinished(path string) bool {
	return strings.HasSuffix(path, freshSuffix) || strings.HasSuffix(path, finishedSuffix)
}

// isStore reports whether a directory has the files of a store, intact or not.
func isStore(dir string) bool {
	entries, _ := os.ReadDir(dir) // an unreadable directory shows none
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "MANIFEST-") })
}

// storesIn returns the store directories in a directory, except incomplete ones that a rebuild has left.
func storesIn(dir string) (stores []string) {
	entries, _ := os.ReadDir(dir) // an unreadable directory lists none
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.IsDir() && isStore(path) && !isUnfinished(path) {
			stores = append(stores, path)
		}
	}
	return stores
}

// copyDurably copies a directory. When it returns, every file and every name of the copy is on disk. Pebble only syncs
// the tables that it writes. After the next start has cut the journal, the copied tables are the only ones with these
// rows.
func copyDurably(to, from string, sync func(path string) error) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		return cmp.Or(err, sync(path))
	})
}

// unused returns path, or path with a number if path exists because an earlier rebuild kept its store there.
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
	l, err := openLocalLog(LogOptions{Journal: journal.Options{Dir: journalDir, Applied: s.Applied(), StoreJournal: s.Journal(), AllowClockAhead: true}})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := s.Adopt(l.UUID()); err != nil {
		return result, err
	}
	last := l.Status().Synced
	r := replayer{store: s, commit: s.Commit, progress: func(seq, _ uint64) { progress(seq, last) }}
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
		return result, fmt.Errorf("the check of the rebuilt store found a problem: %s", first)
	}
	return result, s.FlushWait()
}
