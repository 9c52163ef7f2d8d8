package ingest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/store/query"
)

// Queries returns the queries of the state. They read the last commit and never wait for the log. To include all stored
// commands, call CatchUp first.
func (e *Engine) Queries() *query.Queries { return e.store.Queries }

// maxReadWait bounds how long a read waits for the state to include a record of the log.
const maxReadWait = 5 * time.Second

// CatchUp waits until the state includes the command minSeq and all commands that were stored when CatchUp was called. A
// query after that sees every change that was answered before the call.
func (e *Engine) CatchUp(ctx context.Context, minSeq uint64) error {
	target, err := e.log.Barrier(ctx)
	if err != nil {
		return cmp.Or(ctx.Err(), fmt.Errorf("%w: %w", ErrStale, err))
	}
	target = max(minSeq, target)
	if e.store.Applied() >= target {
		return nil
	}
	timer := time.NewTimer(maxReadWait)
	defer timer.Stop()
	for {
		next, blocked := e.commits.applied.next(), e.commits.blocked.next()
		if e.store.Applied() >= target {
			return nil
		}
		if err := e.commits.stalled(); err != nil {
			return err
		}
		select {
		case <-next:
		case <-blocked:
		case <-timer.C:
			return ErrStale
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Now returns the log's time in unix ms. Leases and ages are measured in this time.
func (e *Engine) Now() int64 { return e.log.Now() }
