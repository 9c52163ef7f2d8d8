package peer

import (
	"context"
	"errors"
	"sync/atomic"
)

// count counts the jobs that a worker has done, and ends a context with the last one.
type count struct {
	left atomic.Int64
	stop context.CancelCauseFunc
}

var errDone = errors.New("all jobs are done")

func newCount(jobs int, stop context.CancelCauseFunc) *count {
	c := &count{stop: stop}
	c.left.Store(int64(jobs))
	return c
}

func (c *count) done() {
	if c.left.Add(-1) == 0 {
		c.stop(errDone)
	}
}

// wait waits for the last job. If ctx ends for another reason, it returns an error.
func (c *count) wait(ctx context.Context) error {
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, errDone) {
		return err
	}
	return nil
}
