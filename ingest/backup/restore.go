package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/journal"
)

const (
	// restoreSuffix is the suffix of a data directory while it is being restored.
	restoreSuffix = ".partial"
	// restoreInside is the subdirectory in which an existing data directory is restored. So the data directory may be a
	// mount point, and nothing is written to its parent.
	restoreInside = ".restore.partial"
	// restoreMark is a file in these directories. It shows that a restore made the directory, so that a later restore may
	// remove it.
	restoreMark = "restore-under-way"
	// journalName is the entry of a data directory that a restore moves last, because no server starts without it.
	journalName = "journal"
	// maxLinks bounds the chain of symbolic links at the end of a data directory's path.
	maxLinks = 40
)

// ErrNotEmpty: the data directory of a restore exists and has files.
var ErrNotEmpty = errors.New("the data directory is not empty")

// ErrNoBackup: the directory contains no backup.
var ErrNoBackup = errors.New("there is no backup")

// Find returns the backup that a path refers to: the path itself if it is a backup, or the newest backup in it. The
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

// Restored is the result of Restore.
type Restored struct {
	*Manifest
	Applied uint64           // seq of the last command that the restored state includes
	Jobs    map[string]int64 // by status
	Keys    int              // keys that the backup has; they are revoked with RevokeKeys
	Blobs   *Blobs           // nil: the backup was made without blobs
}

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	RevokeKeys bool // before the directory gets its name, so no server ever starts with the keys
}

// Restore makes a data directory from a backup. The data directory must be missing, or empty except for lost+found. The
// files get their final names only when they match the digests of the backup, the journal was applied, and the check of
// the store found no problem. Until then they are in a temporary directory, which the next Restore removes if this one is
// killed:
//
//   - A missing directory appears in one step. The temporary directory is next to it.
//   - An existing directory stays, and keeps its owner. The files get the same owner, if this process may change their owner. The temporary
//     directory is inside it. The journal is moved last.
//
// A symbolic link stays, and its target becomes the data directory.
//
// The error is ErrDamaged if the backup is damaged, and ErrNotEmpty if the data directory has files.
func Restore(ctx context.Context, backup, data string, o RestoreOptions) (r Restored, err error) {
	to, err := findRestore(data)
	if err != nil {
		return r, err
	}
	m, blobs, err := open(backup)
	if err != nil {
		return r, err
	}
	r.Manifest, r.Blobs = m, blobs
	partial := to.partial
	lock, err := to.begin()
	if err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.abandon())
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
	r.Applied, r.Jobs, r.Keys = found.Applied, found.Jobs, found.Keys
	if o.RevokeKeys {
		if _, err := ingest.RevokeKeys(ctx, partial); err != nil {
			return r, fmt.Errorf("revoke the keys: %w", err)
		}
	}
	return r, to.publish()
}

// restoring is a data directory that is being restored.
type restoring struct {
	data    string // without symbolic links
	exists  bool   // the directory exists, and is empty
	partial string // the files' directory until they are checked
	done    bool   // the data directory has the journal
}

// findRestore returns ErrNotEmpty unless the data directory is missing or empty.
func findRestore(data string) (*restoring, error) {
	data, err := followLinks(data)
	if err != nil {
		return nil, err
	}
	r := &restoring{data: data, partial: data + restoreSuffix}
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r.exists, r.partial = true, filepath.Join(data, restoreInside)
	_, err = os.Lstat(filepath.Join(r.partial, restoreMark))
	isLeft := err == nil
	for _, e := range entries {
		switch name := e.Name(); {
		case name == "lost+found", name == restoreInside: // begin refuses the second unless a restore made it
		case isLeft && slices.Contains(movedFirst, name) && !hasName(entries, journalName): // begin removes it
		default:
			return nil, fmt.Errorf("%w: %s has %s; next step: name a directory that does not exist, or move its files away", ErrNotEmpty, data, name)
		}
	}
	return r, nil
}

func hasName(entries []os.DirEntry, name string) bool {
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == name })
}

// followLinks returns the absolute path to which symbolic links at the end of a path lead, even if the target is missing.
func followLinks(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for range maxLinks {
		real, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return real, err
		}
		target, err := os.Readlink(path)
		if err != nil { // the path does not exist, or is not a link
			return path, nil
		}
		if !filepath.IsAbs(target) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", err
			}
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", fmt.Errorf("%s: more than %d symbolic links", path, maxLinks)
}

// begin makes the directory for the files. It removes the leftovers of a killed restore.
func (r *restoring) begin() (lock io.Closer, err error) {
	if r.exists {
		return beginRestore(r.partial, r.removeMoved)
	}
	return beginRestore(r.partial, func() error { return nil })
}

// movedFirst are the entries that a restore moves into a data directory before the journal.
var movedFirst = []string{"store", "blobs"}

// removeMoved removes these entries. If there is a journal, they are not from a restore: another process has used the
// directory.
func (r *restoring) removeMoved() error {
	_, err := os.Lstat(filepath.Join(r.data, journalName))
	if err == nil {
		return fmt.Errorf("%w: %s has %s, and another process made it meanwhile", ErrNotEmpty, r.data, journalName)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = nil
	for _, name := range movedFirst {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.data, name)))
	}
	return err
}

// abandon removes the files of a failed restore.
func (r *restoring) abandon() (err error) {
	if r.done {
		return nil
	}
	if r.exists {
		err = r.removeMoved()
	}
	return errors.Join(err, removeMarked(r.partial, restoreMark))
}

// publish gives the restored data its final name.
func (r *restoring) publish() error {
	if r.exists {
		return r.moveIn()
	}
	if err := os.Rename(r.partial, r.data); err != nil {
		return err
	}
	r.done = true
	if err := journal.SyncPath(filepath.Dir(r.data)); err != nil {
		return err
	}
	return os.Remove(filepath.Join(r.data, restoreMark)) // a server ignores the mark if it stays
}

// moveIn moves the restored data into the existing directory. The journal moves last, when all else is durable.
func (r *restoring) moveIn() error {
	if err := giveToOwner(r.data, r.partial); err != nil {
		return fmt.Errorf("give the restored files to the owner of %s: %w", r.data, err)
	}
	move := func(name string) error {
		return os.Rename(filepath.Join(r.partial, name), filepath.Join(r.data, name))
	}
	for _, name := range movedFirst {
		if err := move(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // the backup may have no blobs
			return err
		}
	}
	if err := journal.SyncPath(r.data); err != nil {
		return err
	}
	if err := move(journalName); err != nil {
		return err
	}
	r.done = true
	if err := journal.SyncPath(r.data); err != nil {
		return err
	}
	return removeMarked(r.partial, restoreMark) // a server ignores the directory if it stays
}

// beginRestore makes the directory for the restore, and locks its mark. It removes the directory of a killed restore
// after calling removeMoved.
func beginRestore(partial string, removeMoved func() error) (lock io.Closer, err error) {
	mark := filepath.Join(partial, restoreMark)
	entries, err := os.ReadDir(partial)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		old, err := filelock.Open(mark)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s exists, and no restore has made it; next step: move it away", ErrNotEmpty, partial)
		}
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("%w: another restore makes %s", ErrInUse, partial)
		}
		if err != nil {
			return nil, err
		}
		err = removeMoved()
		if err == nil {
			err = removeMarked(partial, restoreMark)
		}
		if err := errors.Join(err, old.Close()); err != nil {
			return nil, err
		}
	}
	if err := journal.MakeDir(partial, journal.SyncPath); err != nil {
		return nil, err
	}
	if err := writeDurably(mark, nil); err != nil {
		return nil, err
	}
	return filelock.Open(mark)
}

// removeMarked removes a directory if it exists. It removes the mark as the last file.
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

// Others describes the other backups next to a damaged one, newest first, for an error message. If the damage is in a
// blob, it leaves out the backups that share the blob.
func Others(backup string, failed error) string {
	blob, isBlob := errors.AsType[*DamagedBlob](failed)
	d := Directory{path: filepath.Dir(backup)}
	names, _ := d.names() // without a list, there are none to suggest
	var others []string
	for _, name := range slices.Backward(names) {
		path := filepath.Join(d.path, name)
		if name == filepath.Base(backup) {
			continue
		}
		if isBlob {
			if _, blobs, err := open(path); err != nil || blobs != nil && blobs.has(blob.entry.client, blob.entry.address) {
				continue
			}
		}
		others = append(others, path)
	}
	return strings.Join(others, ", ")
}

// copyVerified copies a file durably, and returns ErrDamaged unless the copy matches f.
func copyVerified(to, from string, f *File) (err error) {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrDamaged, from)
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != f.Bytes {
		return fmt.Errorf("%w: %s is not a file of %d bytes", ErrDamaged, from, f.Bytes)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	sum, err := writeFile(to, in, f.Bytes)
	if err == nil && sum != f.SHA256 {
		err = fmt.Errorf("%w: the bytes of %s are not those that were written: their SHA-256 is %s", ErrDamaged, from, sum)
	}
	return err
}
