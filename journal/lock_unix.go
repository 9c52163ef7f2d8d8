//go:build unix && !aix && !solaris

package journal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// LockDir locks a directory for this process until the returned file is closed. It returns ErrLocked if the directory
// is locked already. The lock is a lock of the kernel on the directory itself: it ends with the process, also when the
// process is killed, and leaves no file. Offline readers work without it.
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
