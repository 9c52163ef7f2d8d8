package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"syscall"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// Check opens a data directory that no process uses, applies the journal to the store in memory, and reports each
// problem; see store.Store.Check. It changes files only as a start does. On a read-only file system it changes nothing,
// and fails with ErrBehind if the store lacks commands of the journal.
func Check(ctx context.Context, data string, report func(problem string) bool) (problems int, err error) {
	found, err := Inspect(ctx, data, report)
	return found.Problems, err
}

// Inspected is the result of Inspect.
type Inspected struct {
	Problems int
	Applied  uint64           // seq of the last command of the journal
	Jobs     map[string]int64 // by status
	Keys     int              // that are not revoked
}

// Inspect is Check, and also returns the state after all commands of the journal.
func Inspect(ctx context.Context, data string, report func(problem string) bool) (found Inspected, err error) {
	e, err := Open(Options{Dir: data, AllowClockAhead: true}) // no new command gets a time
	if errors.Is(err, syscall.EROFS) {
		return inspectReadOnly(data, report)
	}
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.replay(ctx); err != nil {
		return found, fmt.Errorf("replay journal: %w", err)
	}
	return inspectStore(e.store, report)
}

// inspectStore checks a store that is up to date.
func inspectStore(s *store.Store, report func(problem string) bool) (found Inspected, err error) {
	found.Applied, found.Jobs, found.Keys = s.Applied(), jobsByStatus(s.Totals()), s.NumKeys()
	found.Problems, err = s.Check(report)
	return found, err
}

// InspectRecords is Inspect for a data directory whose log has another form than a journal. records yields the commands of
// the log from a seq on, as a function of package journal does. The caller has locked the directory.
func InspectRecords(ctx context.Context, data string, records func(from uint64) iter.Seq2[journal.Record, error], report func(problem string) bool) (found Inspected, err error) {
	s, err := store.Open(StoreDir(data), store.Options{})
	readOnly := errors.Is(err, syscall.EROFS)
	if readOnly {
		s, err = store.Open(StoreDir(data), store.Options{ReadOnly: true})
	}
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	commands := records(s.Applied() + 1)
	if !readOnly {
		if _, err := Replay(ctx, s, commands, func(uint64, uint64) {}); err != nil {
			return found, fmt.Errorf("apply the log: %w", err)
		}
		return inspectStore(s, report)
	}
	for r, err := range commands {
		if err == nil {
			err = behind(s, r.Seq)
		}
		return found, err
	}
	return inspectStore(s, report)
}

// ErrBehind: the store lacks commands of the journal, and cannot apply them on a read-only file system.
var ErrBehind = errors.New("the store lacks commands of the journal, which only a start or a check that can write applies")

// inspectReadOnly is Inspect for read-only files.
func inspectReadOnly(data string, report func(problem string) bool) (found Inspected, err error) {
	lock, err := filelock.Open(data)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	log, err := journal.Verify(JournalDir(data))
	if err != nil {
		return found, err
	}
	if log.Damage != nil {
		return found, log.Damage
	}
	s, err := store.Open(StoreDir(data), store.Options{ReadOnly: true})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.Applied() < log.Last {
		return found, behind(s, log.Last)
	}
	return inspectStore(s, report)
}

// behind is the error of a store on a read-only file system that lacks the command with a seq.
func behind(s *store.Store, seq uint64) error {
	return fmt.Errorf("%w: it has those up to %d, and not %d; check a copy, or mount the file system writable", ErrBehind, s.Applied(), seq)
}

// Check reports each problem in the running engine's state, as of one moment; see store.Store.Check.
func (e *Engine) Check(report func(problem string) bool) (problems int, err error) {
	return e.store.Check(report)
}
