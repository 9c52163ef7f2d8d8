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

// Lock makes the data directory if need be and takes it for this process until the file is closed. The lock is the kernel's, so
// a killed process leaves none behind.
func Lock(data string) (*os.File, error) {
	if err := os.MkdirAll(data, 0o750); err != nil {
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
