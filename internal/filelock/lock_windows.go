package filelock

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks an open file until Unlock, or the end of the process. It does not wait: the error is ErrLocked if it is locked
// already. Directories have no locks on this system: the error is errors.ErrUnsupported.
func Lock(f *os.File) error {
	if info, err := f.Stat(); err != nil {
		return err
	} else if info.IsDir() {
		return errors.ErrUnsupported
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Unlock unlocks a file, before it is closed.
func Unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}

// lockedByte is the byte that is locked. Locks of this system forbid reading and writing, so it is one that no file has.
func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: math.MaxInt32} }
