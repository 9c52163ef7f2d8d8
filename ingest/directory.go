package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/journal"
)

// ErrInUse: another process uses the data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// JournalDir is the folder of the journal in a data directory.
func JournalDir(data string) string { return filepath.Join(data, "journal") }

// StoreDir is the folder of the store in a data directory.
func StoreDir(data string) string { return filepath.Join(data, "store") }

// Lock makes the data directory if it does not exist, syncs its name, and locks it for this process until the file is
// closed. ErrInUse means that another process holds the lock.
func Lock(data string) (*os.File, error) {
	if err := journal.MakeDir(data, journal.SyncPath); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	f, err := journal.LockDir(data)
	if errors.Is(err, journal.ErrLocked) {
		err = fmt.Errorf("%w: %s", ErrInUse, data)
	}
	return f, err
}
