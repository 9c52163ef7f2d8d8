package ingest

import (
	"context"
	"errors"
	"fmt"
)

// Check opens a data directory that no process uses, applies the journal to the store in memory, and reports each
// problem; see store.Store.Check. It changes files only as a start does.
func Check(ctx context.Context, data string, report func(problem string) bool) (problems int, err error) {
	e, err := Open(Options{Dir: data, AllowClockAhead: true}) // no command gets a time
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := e.replay(ctx); err != nil {
		return 0, fmt.Errorf("replay journal: %w", err)
	}
	return e.store.Check(report)
}

// Check reports each problem of the running engine's state, as of one moment; see store.Store.Check.
func (e *Engine) Check(report func(problem string) bool) (problems int, err error) {
	return e.store.Check(report)
}
