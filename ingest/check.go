package ingest

import (
	"context"
	"errors"
	"fmt"
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
	found.Applied, found.Jobs = e.store.Applied(), jobsByStatus(e.store.Totals())
	found.Problems, err = e.store.Check(report)
	return found, err
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
		return found, fmt.Errorf("%w: it has those up to %d of %d; check a copy, or mount the file system writable", ErrBehind, s.Applied(), log.Last)
	}
	found.Applied, found.Jobs = s.Applied(), jobsByStatus(s.Totals())
	found.Problems, err = s.Check(report)
	return found, err
}

// Check reports each problem in the running engine's state, as of one moment; see store.Store.Check.
func (e *Engine) Check(report func(problem string) bool) (problems int, err error) {
	return e.store.Check(report)
}
