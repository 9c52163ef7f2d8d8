//go:build unix

package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow makes the opening of a symbolic link fail.
const noFollow = unix.O_NOFOLLOW

// lockNote locks a file until it is closed, or returns errNoteInUse.
func lockNote(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errNoteInUse
	}
	return err
}
