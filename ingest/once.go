package ingest

import (
	"context"
	"errors"
	"sync"

	"github.com/daybookq/daybook/job"
)

// flights are the requests with an idempotency key that are under way: of those with one key, one at a time. Whoever waited finds what the
// first has done. Apply would decide the same without this; but a repeat would be journaled again, and two that wait for a job would wait
// for two.
type flights struct {
	mu    sync.Mutex
	under map[flight]chan struct{} // closed when the request has ended
}

type flight struct{ scope, key string }

func newFlights() *flights { return &flights{under: map[flight]chan struct{}{}} }

// board waits until no other request with the key is under way; land must be called at the end.
func (f *flights) board(ctx context.Context, o *job.Once) (land func(), err error) {
	at := flight{o.Scope, o.Key}
	for {
		f.mu.Lock()
		other := f.under[at]
		if other == nil {
			mine := make(chan struct{})
			f.under[at] = mine
			f.mu.Unlock()
			return func() {
				f.mu.Lock()
				delete(f.under, at)
				f.mu.Unlock()
				close(mine)
			}, nil
		}
		f.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, errors.Join(ErrNotStored, ctx.Err())
		}
	}
}

// mayRemember reports whether one more key may be kept.
func (e *Engine) mayRemember() error {
	if e.store.Totals().Keys >= job.MaxKeys {
		return ErrTooManyKeys
	}
	return nil
}
