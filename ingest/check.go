package ingest

import (
	"context"
	"errors"
	"fmt"
)

// Check opens a data directory that no process uses, applies the journal to the store in memory, and reports each
// problem; see store.Store.Check. It changes files only as a start does.
func Check(ctx context.Context, data string, report func(problem string) bool) (problems int, err error) {
	found, err := Inspect(ctx, data, report)
	return found.Problems, err
}

// Inspected is what Inspect has found.
type Inspected struct {
	Problems int
	Applied  uint64           // seq of the last command of the journal
	Jobs     map[string]int64 // by status
}

// Inspect is Check, and returns what the state is when the journal is applied.
func Inspect(ctx context.Context, data string, report func(problem string) bool) (found Inspected, err error) {
	e, err := Open(Options{Dir: data, AllowClockAhead: true}) // no command gets a time
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

// Check reports each problem of the running engine's state, as of one moment; see store.Store.Check.
func (e *Engine) Check(report func(problem string) bool) (problems int, err error) {
	return e.store.Check(report)
}
