//go:build unix && !aix && !solaris

package journal

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// LockDir locks a directory for this process until the returned lock is closed. It returns ErrLocked if the directory
// is locked already. The lock is a lock of the kernel on the directory itself: it ends with the process, also when the
// process is killed, and leaves no file. Offline readers work without it.
func LockDir(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return dirLock{f}, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(fmt.Errorf("lock directory %s: %w", dir, err), f.Close())
}

// dirLock is a locked directory.
type dirLock struct{ f *os.File }

// Close unlocks the directory before it closes the file. To close it is not enough: a process that is just being started
// has the file, too, until it executes its program, and would hold the lock until then.
func (l dirLock) Close() error {
	return errors.Join(unix.Flock(int(l.f.Fd()), unix.LOCK_UN), l.f.Close())
}
