package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse: another process has the data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// Lock makes the data directory if need be, its name durable, and takes it for this process until the file is closed. The lock is the kernel's, so
// a killed process leaves none behind.
func Lock(data string) (*os.File, error) {
	if err := makeDurably(data, syncDir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", data, err), f.Close())
	}
	return f, nil
}

// makeDurably makes a directory and what is missing above it, from the top, each name durable in its parent before anything is put
// below it: what is acknowledged within a directory whose own name a power cut can take is lost with it. The last name is made durable
// even where it exists, since a start that made it may have been killed before it came to that.
func makeDurably(dir string, sync func(dir string) error) error {
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
		if err := sync(parent); err != nil && !errors.Is(err, os.ErrPermission) { // whoever made it for us may not let us see the rest
			return err
		}
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if _, err := os.Stat(parent); errors.Is(err, os.ErrNotExist) {
		if err := makeDurably(parent, sync); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(parent)
}
