//go:build unix && !aix && !solaris

package dirlock

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Lock locks a directory until the process ends or the file is closed. It does not wait. The error is ErrLocked,
// fs.ErrNotExist, errors.ErrUnsupported or another one of the file system.
func Lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = ErrLocked
	}
	f.Close()
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}
