package journal

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// MakeDir makes a directory and its missing parents, from the top. It makes each name durable in its parent before it
// makes the next directory: if a power cut removed the name of a directory, all acknowledged records in it would be lost.
//
// If the directory exists, MakeDir still makes its name durable, because the process that made it may have been killed
// before doing so. sync makes the names in a directory durable.
func MakeDir(dir string, sync func(dir string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &os.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil:
		// If an operator made the directory, this process may lack permission to read the parent.
		if err := sync(parent); err != nil && !errors.Is(err, os.ErrPermission) {
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

// SyncPath makes a file durable; for a directory, the names in it.
func SyncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
