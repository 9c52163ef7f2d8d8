package ingest

import (
	"context"
	"errors"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// underWay are the requests with an idempotency key or a number of a session that are under way: at most one with each
// key, and one in each slot of a session. A request that waited for another finds the result of that one. Apply would
// decide the same without this; but two claims that wait for a job would wait for two jobs.
type underWay struct {
	mu       sync.Mutex
	requests map[job.Once]chan struct{} // closed when the request has ended
}

func newUnderWay() *underWay { return &underWay{requests: map[job.Once]chan struct{}{}} }

// begin waits until no other request with the key, or in the slot, is under way. The caller calls end when its request
// has ended.
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

// mayRemember refuses a request whose result cannot be kept. A session has a bounded number of rows; each key is one
// more row.
func (e *Engine) mayRemember(o *job.Once) error {
	if !o.Numbered() && e.store.Totals().Keys >= e.o.maxKeys {
		return ErrTooManyKeys
	}
	return nil
}

// completedBefore returns the first results of completions, all with one key, if all of them were carried out before;
// otherwise nil.
func (e *Engine) completedBefore(ctx context.Context, commands []job.Complete) (ended []store.Ended, last Receipt, err error) {
	if err := e.CatchUp(ctx, 0); err != nil {
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
