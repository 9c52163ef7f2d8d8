package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/journal"
)

// restoreSuffix ends the name of a data directory while it is restored.
const restoreSuffix = ".partial"

// restoreMark is a file in such a directory. It says that a restore has made the directory, so that another one may
// remove it.
const restoreMark = "restore-under-way"

// ErrNotEmpty: the data directory of a restore exists and has files.
var ErrNotEmpty = errors.New("the data directory is not empty")

// ErrNoBackup: there is no backup in the directory.
var ErrNoBackup = errors.New("there is no backup")

// Find returns the backup that a path means: the path itself if it is a backup, or the newest backup in it. The
// directory with the backups is locked until close is called.
func Find(path string) (backup string, close func() error, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	parent := path
	isBackup := nameForm.MatchString(filepath.Base(path))
	if isBackup {
		parent = filepath.Dir(path)
	}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "", nil, fmt.Errorf("%w: %s is not a directory", ErrNoBackup, path)
	}
	d, err := lockDirectory(parent, false)
	if err != nil {
		return "", nil, err
	}
	if isBackup {
		return path, d.Close, nil
	}
	names, err := d.names()
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%w in %s: it has no directory with a name such as %s", ErrNoBackup, path, nameLayout)
	}
	if err != nil {
		return "", nil, errors.Join(err, d.Close())
	}
	return filepath.Join(parent, names[len(names)-1]), d.Close, nil
}

// Restored is what Restore has done.
type Restored struct {
	*Manifest
	Applied uint64           // seq of the last command that the restored state includes
	Jobs    map[string]int64 // by status
	Blobs   *Blobs           // nil: the backup was made without blobs
}

// Restore makes a data directory of a backup. The directory must not exist, or be empty. It appears in one step, when
// all files have the digests that the backup promises, the journal was applied, and the check of the store has found no
// problem. Until then the files are in a directory beside it, which the next Restore removes if this one is killed.
//
// The error is ErrDamaged if the backup is damaged, and ErrNotEmpty if the data directory has files.
func Restore(ctx context.Context, backup, data string) (r Restored, err error) {
	data, err = filepath.Abs(data)
	if err != nil {
		return r, err
	}
	if err := isFree(data); err != nil {
		return r, err
	}
	m, blobs, err := open(backup)
	if err != nil {
		return r, err
	}
	r.Manifest, r.Blobs = m, blobs
	partial := data + restoreSuffix
	lock, err := beginRestore(partial)
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
		err = errors.Join(err, lock.Close())
	}()
	if err := copyFiles(ctx, backup, partial, m); err != nil {
		return r, err
	}
	if blobs != nil {
		if n, _ := blobs.Count(); n > 0 {
			if err := blobs.restore(ctx, filepath.Join(partial, "blobs"), blobsOf(backup)); err != nil {
				return r, err
			}
		}
	}
	if err := syncDirs(partial); err != nil {
		return r, err
	}
	first := ""
	found, err := ingest.Inspect(ctx, partial, func(problem string) bool { first = problem; return false })
	if err != nil {
		return r, fmt.Errorf("open the restored data: %w", err)
	}
	if found.Problems > 0 || found.Applied < m.Last {
		return r, fmt.Errorf("%w: the restored state includes the commands up to seq %d of %d; the check found %d problems %s", ErrDamaged, found.Applied, m.Last, found.Problems, first)
	}
	r.Applied, r.Jobs = found.Applied, found.Jobs
	return r, publishRestored(partial, data)
}

// isFree returns ErrNotEmpty unless a directory is empty or does not exist.
func isFree(data string) error {
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%w: %s has %s; next step: name a directory that does not exist, or move its files away", ErrNotEmpty, data, entries[0].Name())
	}
	return err
}

// beginRestore makes the directory in which the data is restored, and locks its mark. It removes a directory that a
// killed restore has left.
func beginRestore(partial string) (lock *os.File, err error) {
	mark := filepath.Join(partial, restoreMark)
	entries, err := os.ReadDir(partial)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		old, err := journal.LockDir(mark)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s exists, and no restore has made it; next step: move it away", ErrNotEmpty, partial)
		}
		if errors.Is(err, journal.ErrLocked) {
			return nil, fmt.Errorf("%w: another restore makes %s", ErrInUse, partial)
		}
		if err != nil {
			return nil, err
		}
		if err := errors.Join(removeMarked(partial, restoreMark), old.Close()); err != nil {
			return nil, err
		}
	}
	if err := journal.MakeDir(partial, journal.SyncPath); err != nil {
		return nil, err
	}
	if err := writeDurably(mark, nil); err != nil {
		return nil, err
	}
	return journal.LockDir(mark)
}

// removeMarked removes a directory if it exists, its mark as the last file.
func removeMarked(dir, mark string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != mark {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func copyFiles(ctx context.Context, backup, to string, m *Manifest) error {
	for i := range m.Files {
		f := &m.Files[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		name := filepath.FromSlash(f.Path)
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o750); err != nil {
			return err
		}
		if err := copyVerified(filepath.Join(to, name), filepath.Join(backup, name), f); err != nil {
			return err
		}
	}
	return nil
}

// publishRestored gives restored data its name.
func publishRestored(partial, data string) error {
	if err := os.Remove(data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; next step: if it is the root of a file system, name a directory in it, such as %s", err, filepath.Join(data, "data"))
	}
	if err := os.Rename(partial, data); err != nil {
		return err
	}
	if err := journal.SyncPath(filepath.Dir(data)); err != nil {
		return err
	}
	return os.Remove(filepath.Join(data, restoreMark)) // a server ignores it if it stays
}

// Others returns the other backups beside a backup, the newest first, for a message about a damaged one.
func Others(backup string) string {
	d := Directory{path: filepath.Dir(backup)}
	names, _ := d.names() // if they cannot be listed, there are none to name
	var others []string
	for i := len(names) - 1; i >= 0; i-- {
		if names[i] != filepath.Base(backup) {
			others = append(others, filepath.Join(d.path, names[i]))
		}
	}
	return strings.Join(others, ", ")
}
