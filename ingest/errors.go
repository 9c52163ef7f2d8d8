package ingest

import (
	"errors"
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
)

// Reasons why a request was not carried out. Package job has the refusals that Apply decides.
var (
	// ErrNotStored: the command is not in the journal and never will be.
	ErrNotStored = journal.ErrNotStored
	// ErrUnknown: the command may or may not be in the log. Its write failed and could not be undone, or the answer did
	// not arrive in time.
	ErrUnknown = journal.ErrUnknown
	// ErrWritesFailed: the log cannot take commands until it is repaired. The command was not taken. Reads still work.
	ErrWritesFailed = journal.ErrFailed
	// ErrMalformed: the command contradicts itself, so Apply would fail. The command was not taken.
	ErrMalformed = errors.New("the command is malformed")
	// ErrTooLarge: the command is larger than a record may be.
	ErrTooLarge = journal.ErrTooLarge
	// ErrClosed: the engine is stopping. The command was not taken.
	ErrClosed = journal.ErrClosed
	// ErrNotReady: the journal is still being replayed. The command was not taken.
	ErrNotReady = errors.New("the journal is being replayed")
	// ErrOverloaded: too many bytes wait for the applier. Only creates get this error. The command was not taken.
	ErrOverloaded = errors.New("the server has not applied earlier creates yet; try again shortly")
	// ErrDiskFull: less space is free than diskspace.Reserve, so the engine refuses creates and large completions. It still
	// accepts claims and small completions.
	ErrDiskFull = errors.New("the disk is nearly full")
	// ErrTooManyQueues: the create would make a queue past job.MaxQueues. The error is a *TooManyQueues.
	ErrTooManyQueues = fmt.Errorf("there are %d queues, which is the limit; delete queues that have no jobs, or use one that exists", job.MaxQueues)
	// ErrQuotaExceeded: the create would exceed the quota of its client. The error is a *QuotaExceeded.
	ErrQuotaExceeded = errors.New("the quota of the client is reached")
	// ErrTooManyKeys: the stored idempotency keys already take job.MaxKeyRowBytes, or the keys of this client or runner
	// take as much as is left. The command was not taken.
	ErrTooManyKeys = errors.New("the limit of idempotency keys is reached")
	// ErrTooManySessionBytes: the rows of sessions already take job.MaxSessionRowBytes, or the rows of this runner take
	// more than is left. The command was not taken.
	ErrTooManySessionBytes = errors.New("the limit of what sessions remember is reached")
	// ErrTooManyParked: job.MaxParkedClaims claims are already waiting.
	ErrTooManyParked = errors.New("the limit of waiting claims is reached")
	// ErrStale: the state did not include the whole log in time for a read.
	ErrStale = errors.New("the state does not include all of the journal yet")
	// ErrNotLeading: only the process that leads the log may do this, and this process is not the leader. The command was
	// not taken.
	ErrNotLeading = errors.New("this process does not lead the log")
	// ErrStuck: the engine could not stop because a commit of the store is blocked. The data directory stays locked
	// until the process ends.
	ErrStuck = errors.New("the store cannot stop")
	// ErrNoBase: the base of a rebuild is not a store directory.
	ErrNoBase = errors.New("there is no such base")
	// ErrApply: the command is in the journal, but the store failed to apply it. A restart applies it.
	ErrApply = errors.New("the command is journaled and will be applied after a restart")
)
