package ingest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/journal"
)

// ErrInUse: another process has locked the data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// ErrNoJournal: a data directory has no journal. Open would create one.
var ErrNoJournal = errors.New("it has no journal")

// HasJournal reports whether a data directory exists and has a journal.
func HasJournal(data string) (bool, error) {
	entries, err := os.ReadDir(JournalDir(data))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "lost+found" }) // exists in the root of a file system
	return len(entries) > 0, err
}

// JournalDir returns the folder of the journal in a data directory.
func JournalDir(data string) string { return filepath.Join(data, "journal") }

// StoreDir returns the folder of the store in a data directory.
func StoreDir(data string) string { return filepath.Join(data, "store") }

// Lock locks the data directory for this process until the returned lock is closed. If the directory does not exist, Lock
// makes it and makes its name durable. The error is ErrInUse if another process holds the lock.
func Lock(data string) (io.Closer, error) {
	if err := journal.MakeDir(data, journal.SyncPath); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	f, err := filelock.Open(data)
	if errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("%w: %s", ErrInUse, data)
	}
	return f, err
}
