package row

import (
	"errors"

	"github.com/daybookq/daybook/store/internal/lsm"
)

// Error is a failure of the underlying database during Apply or a query. After an Error from Apply or Commit the store
// must be closed; its state is then the state of the last commit.
type Error = lsm.Error

var (
	// ErrDamaged: a file of the store is missing, or its contents have changed.
	ErrDamaged = lsm.ErrDamaged
	// ErrClosed: the store was closed.
	ErrClosed = lsm.ErrClosed
	// ErrForeignJournal: the store was made from another journal.
	ErrForeignJournal = errors.New("the store belongs to another journal")
	// ErrNewerFormat: a newer version of the program wrote the store or the journal.
	ErrNewerFormat = errors.New("the data was written by a newer version of the program; start that version or a later one")
	// ErrBusy: Apply has been working on one command for longer than Options.Patience, so a query could not read the
	// queues.
	ErrBusy = errors.New("one command has been applied for too long; does the disk answer?")
	// ErrOlderFormat: an older version of the program wrote the store.
	ErrOlderFormat = errors.New("an older version of the program wrote the store; make it again from the journal with `daybook rebuild`")
)
