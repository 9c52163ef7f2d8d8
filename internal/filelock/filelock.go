package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrLocked is the error for a file that is locked: by another process, or by this one through another open file.
var ErrLocked = errors.New("another process uses it")

// Open locks the file or directory of a path until the returned lock is closed. It does not wait. The error is ErrLocked,
// fs.ErrNotExist, or another one of the file system. It is errors.ErrUnsupported if the system has no such locks; on
// Windows, directories have none.
func Open(path string) (io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := Lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return locked{f}, nil
}

// locked is a file that Open has locked.
type locked struct{ f *os.File }

func (l locked) Close() error { return Close(l.f) }

// Create opens a file for reading and writing, which only the user may do, and creates it if it does not exist. It fails
// if the path is a symbolic link. The caller locks the file with Lock.
func Create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
}

// Close unlocks a file that Lock has locked, and closes it.
func Close(f *os.File) error { return errors.Join(Unlock(f), f.Close()) }
