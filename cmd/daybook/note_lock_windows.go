package main

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow has no meaning here: the notes are in a directory of the user, and only administrators make links.
const noFollow = 0

// lockNote locks a file until it is closed, or returns errNoteInUse. Locks of Windows forbid reading and writing, so the
// locked byte is one that no note has.
func lockNote(f *os.File) error {
	at := &windows.Overlapped{Offset: maxNoteBytes}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errNoteInUse
	}
	return err
}
