package ingest

import (
	"errors"
	"fmt"
	"os"

	"github.com/daybookq/daybook/journal"
)

// ErrInUse: another process has the data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// Lock makes the data directory if need be, its name durable, and takes it for this process until the file is closed.
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
