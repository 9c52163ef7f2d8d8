package ingest

import (
	"context"
	"errors"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// underWay are the requests with an idempotency key or a number of a session that are under way: one at a time of those with the same key,
// or of the same slot. One that waited finds what the first has done. Apply would decide the same without this; but two claims that wait for
// a job would wait for two.
type underWay struct {
	mu       sync.Mutex
	requests map[job.Once]chan struct{} // closed when the request has ended
}

func newUnderWay() *underWay { return &underWay{requests: map[job.Once]chan struct{}{}} }

// begin waits until no other request with the key, or of the slot, is under way; end must be called at the end.
func (u *underWay) begin(ctx context.Context, o *job.Once) (end func(), err error) {
	at := job.Once{Scope: o.Scope, Key: o.Key, Session: o.Session, Slot: o.Slot}
	for {
		u.mu.Lock()
		other := u.requests[at]
		if other == nil {
			mine := make(chan struct{})
			u.requests[at] = mine
			u.mu.Unlock()
			return func() {
				u.mu.Lock()
				delete(u.requests, at)
				u.mu.Unlock()
				close(mine)
			}, nil
		}
		u.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, errors.Join(ErrNotStored, ctx.Err())
		}
	}
}

// mayRemember reports whether what a request does may be remembered. A session has a bounded number of rows; a key is a row more.
func (e *Engine) mayRemember(o *job.Once) error {
	if !o.Numbered() && e.store.Totals().Keys >= e.o.maxKeys {
		return ErrTooManyKeys
	}
	return nil
}

// completedBefore returns the results of completions, all with one key, that were carried out before; nil when they were not, or not all.
func (e *Engine) completedBefore(ctx context.Context, commands []job.Complete) (ended []store.Ended, last Receipt, err error) {
	if err := e.catchUp(ctx, 0); err != nil {
		return nil, Receipt{}, errors.Join(ErrNotStored, err)
	}
	for i := range commands {
		before, err := e.store.EndedBefore(&commands[i], e.Now())
		switch {
		case err != nil:
			return nil, Receipt{}, err
		case before == nil || before.Denied != job.Granted && i > 0:
			return nil, Receipt{}, nil
		case before.Denied != job.Granted:
			return nil, Receipt{}, before.Denied
		}
		ended, last = append(ended, *before), Receipt{Seq: before.Seq, At: before.At}
	}
	return ended, last, nil
}
