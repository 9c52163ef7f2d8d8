package ingest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/daybookq/daybook/store"
)

// Queries returns the reads of the state as of the last commit. They never wait for the log; call CatchUp before them to
// see all that was stored.
func (e *Engine) Queries() *store.Queries { return e.store.Queries }

// maxReadWait bounds how long a read waits for the state to include a record of the log.
const maxReadWait = 5 * time.Second

// CatchUp waits until the state includes all that was stored on arrival, and at least minSeq. A read of the state after
// that sees every change that was answered before the call.
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

// Now returns the log's time, unix ms, by which leases and ages are measured.
func (e *Engine) Now() int64 { return e.log.Now() }
