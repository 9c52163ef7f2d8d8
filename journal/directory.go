package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MakeDir makes a directory and what is missing above it, from the top, each name durable in its parent before anything
// is put below it: what is acknowledged within a directory whose own name a power cut can take is lost with it. The
// last name is made durable even where it exists, since the process that made it may have been killed before it came to
// that. sync makes the names in a directory durable.
func MakeDir(dir string, sync func(dir string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &os.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
	case err == nil:
		if err := sync(parent); err != nil && !errors.Is(err, os.ErrPermission) { // an operator may have made it where we may not read
			return err
		}
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if _, err := os.Stat(parent); errors.Is(err, os.ErrNotExist) {
		if err := MakeDir(parent, sync); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(parent)
}

// SyncPath makes a file or, for a directory, the names in it durable.
func SyncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// LockDir takes a directory for this process until the file is closed; ErrLocked if another has it. The lock is the
// kernel's, on the directory itself: it ends with the process, however that ends, and leaves no file. Offline readers
// do without it.
func LockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock directory %s: %w", dir, err), f.Close())
}
