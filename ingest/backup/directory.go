package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/journal"
)

const (
	// nameLayout is the form of a backup's name: the time in UTC at which it was taken.
	nameLayout = "20060102T150405.000Z"
	// partialPrefix and removedPrefix begin the names of directories that a killed command leaves.
	partialPrefix = ".partial-"
	removedPrefix = ".removed-"
	// leftMark is a file in these directories. It shows that a backup command made the directory, so that a later command
	// may remove it. A complete backup may still have it, if the command was killed at that moment.
	leftMark = "under-way"
)

var (
	nameForm = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}\.[0-9]{3}Z$`)
	leftForm = regexp.MustCompile(`^(\.partial-[0-9]+|\.removed-[0-9]{8}T[0-9]{6}\.[0-9]{3}Z)$`)
)

// ErrInUse: another process is making or restoring a backup in the directory.
var ErrInUse = errors.New("the directory of the backups is in use by another process")

// ErrOtherServer: the directory has backups of another server.
var ErrOtherServer = errors.New("the directory has backups of another server")

// ErrServerData: the directory belongs to a server's data. Its blobs would be mistaken for the blobs of backups.
var ErrServerData = errors.New("the directory belongs to the data of a server; name another one for the backups")

// Directory contains backups, each in a directory that is named by its time, and one directory with the blobs of all of
// them. It is locked for this process until Close.
type Directory struct {
	// BlobsBySize makes Make compare only the sizes of the blobs that the directory already has. Otherwise Make reads
	// them, and fetches changed blobs again.
	BlobsBySize bool

	path string
	lock io.Closer
}

// OpenDirectory locks a directory, and makes it if make is set. It removes the leftovers of killed commands.
func OpenDirectory(path string, make bool) (*Directory, error) {
	if err := refuseServerData(path); err != nil {
		return nil, err
	}
	d, err := lockDirectory(path, make)
	if err != nil {
		return nil, err
	}
	if err := d.removeLeft(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// refuseServerData returns ErrServerData for a server's data directory and everything inside it.
func refuseServerData(path string) error {
	at, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	for {
		if exists(at, "store") && exists(at, "journal", "identity") {
			return fmt.Errorf("%w: %s", ErrServerData, at)
		}
		parent := filepath.Dir(at)
		if parent == at {
			return nil
		}
		at = parent
	}
}

func exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(path...))
	return err == nil
}

// removeLeft removes the directories that killed commands have left. It checks them, because other programs and users may
// use similar names.
func (d *Directory) removeLeft() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !leftForm.MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(d.path, e.Name())
		inside, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		isMarked := slices.ContainsFunc(inside, func(e os.DirEntry) bool { return e.Name() == leftMark && e.Type().IsRegular() })
		if len(inside) > 0 && !isMarked { // the command was killed before it wrote the mark, or after it removed it
			continue
		}
		if err := removeMarked(path, leftMark); err != nil {
			return err
		}
	}
	return nil
}

func lockDirectory(path string, make bool) (*Directory, error) {
	if make {
		if err := journal.MakeDir(path, journal.SyncPath); err != nil {
			return nil, err
		}
	}
	lock, err := filelock.Open(path)
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if err != nil {
		return nil, err
	}
	return &Directory{path: path, lock: lock}, nil
}

// Close unlocks the directory.
func (d *Directory) Close() error { return d.lock.Close() }

// names returns the names of the complete backups, oldest first.
func (d *Directory) names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && nameForm.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Accepts returns ErrOtherServer if the directory has a backup of a server with another journal UUID. With backups of two
// servers in one directory, Make would remove the older backups of either, and Find would return the newest of both.
// Backups that cannot be read are not compared.
func (d *Directory) Accepts(journal string) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		path := filepath.Join(d.path, name)
		m, _, err := open(path)
		if errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion) {
			continue
		}
		if err != nil {
			return err
		}
		if m.Journal != journal {
			return fmt.Errorf("%w: the journal of %s has the UUID %s, and the journal of this server has %s; next step: use a directory for each server",
				ErrOtherServer, path, m.Journal, journal)
		}
	}
	return nil
}

// Made is the result of Make.
type Made struct {
	Path     string
	Verified *Verified
	NewBlobs int   // blobs that were fetched
	NewBytes int64 // their bytes
	Removed  []string
	// Damaged are the addresses of blobs that the backup lacks because they are damaged on the server.
	Damaged []string
	// Repaired are the addresses of blobs that were fetched again because their bytes had changed in the directory.
	Repaired []string
}

// Make makes a backup. stream requests the stream of a server. blobs are the server's blobs; nil leaves them out. The
// backup appears in the directory in one step, when it is complete and verified. Then the oldest backups are removed, so
// that keep of them stay; 0 keeps all. The error is ErrOtherServer if the existing backups are of a different server than
// the stream.
func (d *Directory) Make(ctx context.Context, stream func(context.Context) (io.ReadCloser, error), blobs BlobSource, keep int) (made Made, err error) {
	names, err := d.names()
	if err != nil {
		return made, err
	}
	partial, err := os.MkdirTemp(d.path, partialPrefix)
	if err != nil {
		return made, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeMarked(partial, leftMark))
		}
	}()
	if err := writeDurably(filepath.Join(partial, leftMark), nil); err != nil {
		return made, err
	}
	if err := os.Chmod(partial, 0o750); err != nil {
		return made, err
	}
	var list *Blobs
	if blobs != nil {
		list = NewBlobs()
		store, err := blob.OpenDir(ctx, filepath.Join(d.path, blobsDir), blob.Options{ReserveBytes: 1})
		if err != nil {
			return made, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		// The server may remove blobs that jobs of the snapshot use soon after the snapshot, when these jobs end. So the
		// blobs are fetched before the snapshot. Blobs that arrive later stay for a day, and are fetched after it.
		fetch := func() error {
			done, err := list.fetch(ctx, store, filepath.Join(d.path, blobsDir), blobs, d.BlobsBySize)
			made.NewBlobs, made.NewBytes = made.NewBlobs+done.blobs, made.NewBytes+done.bytes
			made.Damaged = done.damaged // the second fetch finds all of them
			made.Repaired = append(made.Repaired, done.repaired...)
			slices.Sort(made.Damaged)
			slices.Sort(made.Repaired)
			return err
		}
		if err := fetch(); err != nil {
			return made, err
		}
		if err := d.receive(ctx, partial, stream, names); err != nil {
			return made, err
		}
		if err := fetch(); err != nil {
			return made, err
		}
	} else if err := d.receive(ctx, partial, stream, names); err != nil {
		return made, err
	}
	if err := Seal(partial, list); err != nil {
		return made, err
	}
	if made.Verified, err = Verify(ctx, partial, false); err != nil {
		return made, fmt.Errorf("verify the new backup: %w", err)
	}
	if made.Path, err = d.publish(partial, made.Verified.TakenAt, names); err != nil {
		return made, err
	}
	if keep > 0 {
		if made.Removed, err = d.remove(max(0, len(names)+1-keep)); err != nil {
			return made, fmt.Errorf("the backup %s is complete; remove older ones: %w", made.Path, err)
		}
	}
	return made, nil
}

func (d *Directory) receive(ctx context.Context, to string, stream func(context.Context) (io.ReadCloser, error), names []string) (err error) {
	r, err := stream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	base := ""
	if len(names) > 0 {
		base = filepath.Join(d.path, names[len(names)-1])
	}
	m, err := Receive(to, r, base)
	if err != nil {
		return err
	}
	return d.Accepts(m.Journal)
}

// publish gives a complete backup its name. Names are in the order in which backups were made, even if the clock of the
// server was set back.
func (d *Directory) publish(partial string, takenAt int64, names []string) (path string, err error) {
	at := time.UnixMilli(takenAt).UTC()
	if len(names) > 0 {
		newest, err := time.Parse(nameLayout, names[len(names)-1])
		if err != nil {
			return "", fmt.Errorf("the name of the newest backup is no time: %w", err)
		}
		if !at.After(newest) {
			at = newest.Add(time.Millisecond)
		}
	}
	path = filepath.Join(d.path, at.Format(nameLayout))
	if err := os.Rename(partial, path); err != nil {
		return "", err
	}
	if err := journal.SyncPath(d.path); err != nil {
		return "", err
	}
	_ = os.Remove(filepath.Join(path, leftMark)) // a backup that keeps the mark is just as good
	return path, nil
}

// remove removes the n oldest backups, each in one step.
func (d *Directory) remove(n int) (removed []string, err error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names[:min(n, len(names))] {
		gone := filepath.Join(d.path, removedPrefix+name)
		mark := filepath.Join(d.path, name, leftMark)
		if err := errors.Join(os.RemoveAll(mark), writeDurably(mark, nil), journal.SyncPath(filepath.Dir(mark))); err != nil {
			return removed, err
		}
		if err := os.Rename(filepath.Join(d.path, name), gone); err != nil {
			return removed, err
		}
		if err := errors.Join(journal.SyncPath(d.path), removeMarked(gone, leftMark)); err != nil {
			return removed, err
		}
		removed = append(removed, filepath.Join(d.path, name))
	}
	return removed, nil
}

// SweepBlobs removes the blobs that no backup uses. It removes nothing unless it can read the lists of all backups.
func (d *Directory) SweepBlobs(ctx context.Context) (removed int, err error) {
	if _, err := os.Stat(filepath.Join(d.path, blobsDir)); os.IsNotExist(err) {
		return 0, nil
	}
	names, err := d.names()
	if err != nil {
		return 0, err
	}
	var lists []*Blobs
	for _, name := range names {
		_, blobs, err := open(filepath.Join(d.path, name))
		if err != nil {
			return 0, fmt.Errorf("no blobs are removed from %s, since the backup %s cannot be read: %w", filepath.Join(d.path, blobsDir), name, err)
		}
		if blobs != nil {
			lists = append(lists, blobs)
		}
	}
	store, err := blob.OpenDir(ctx, filepath.Join(d.path, blobsDir), blob.Options{ReserveBytes: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return sweep(ctx, store, lists)
}
