package load

import (
	"context"
	"sync"
	"sync/atomic"
)

// Share lets a number of callers make n calls together, each one call after the other. It returns the first error, which ends the
// others after their current calls.
func Share(ctx context.Context, callers, n int, call func(ctx context.Context, caller int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := call(ctx, caller); err != nil {
					stop(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// InBatches is Share for calls that together do a number of jobs, each up to batch of them.
func InBatches(ctx context.Context, callers, jobs, batch int, call func(ctx context.Context, caller, jobs int) error) error {
	var left atomic.Int64
	left.Store(int64(jobs))
	return Share(ctx, callers, (jobs+batch-1)/batch, func(ctx context.Context, caller int) error {
		return call(ctx, caller, min(batch, int(left.Add(-int64(batch)))+batch))
	})
}
