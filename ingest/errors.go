package ingest

import (
	"errors"
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// Reasons why a request could not be carried out, beside the refusals of package job.
var (
	// ErrNotStored: the command is not in the journal and never will be.
	ErrNotStored = journal.ErrNotStored
	// ErrUnknown: the command may or may not be in the log. Its write failed and its removal did too, or the answer did
	// not come in time.
	ErrUnknown = journal.ErrUnknown
	// ErrWritesFailed: the log cannot take commands until it is repaired; nothing was taken. Reads go on.
	ErrWritesFailed = journal.ErrFailed
	// ErrMalformed: the command contradicts itself and could not be applied; nothing was taken.
	ErrMalformed = errors.New("the command is malformed")
	// ErrTooLarge: the command is larger than a record may be.
	ErrTooLarge = journal.ErrTooLarge
	// ErrClosed: the engine is stopping; nothing was taken.
	ErrClosed = journal.ErrClosed
	// ErrNotReady: the journal is still being replayed; nothing was taken.
	ErrNotReady = errors.New("the journal is being replayed")
	// ErrOverloaded: more bytes wait for the applier than may. Creates only; nothing was taken.
	ErrOverloaded = errors.New("ingestion lags behind; try again shortly")
	// ErrTooManyQueues: the create would make a queue past job.MaxQueues. It is a *TooManyQueues.
	ErrTooManyQueues = fmt.Errorf("there are %d queues, which is the limit; delete queues that have no jobs, or use one that exists", job.MaxQueues)
	// ErrTooManyKeys: as many idempotency keys are kept as may be; nothing was taken.
	ErrTooManyKeys = errors.New("as many idempotency keys are alive as may")
	// ErrTooManyParked: job.MaxParkedClaims claims wait already.
	ErrTooManyParked = errors.New("as many claims wait as may")
	// ErrStale: the state did not include all of the log in time for a read.
	ErrStale = errors.New("the state has not caught up with the journal")
	// ErrNotLeading: only the process that leads the log may do this, and another one leads, or none. Nothing was
	// taken.
	ErrNotLeading = errors.New("this process does not lead the log")
	// ErrStuck: the engine could not stop, since the store takes no commit. Only the end of the process unlocks the
	// data directory.
	ErrStuck = errors.New("the store does not end")
	// ErrNoBase: the base of a rebuild is not a store directory.
	ErrNoBase = errors.New("there is no such base")
	// ErrApply: the command is in the journal, but the store failed to apply it; it is applied after a restart.
	ErrApply = errors.New("the command is journaled and will be applied after a restart")
)
