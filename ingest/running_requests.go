package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// underWay is the set of running requests with an idempotency key or a session number. It contains at most one request
// per key and per slot of a session. Another request with the same key or slot waits, and then finds the result of the
// first. Without this, Apply would decide the same, but a claim and its repeat would wait for two jobs.
type underWay struct {
	mu       sync.Mutex                 // guards requests
	requests map[job.Once]chan struct{} // closed when the request has ended
}

func newUnderWay() *underWay { return &underWay{requests: map[job.Once]chan struct{}{}} }

// begin waits until no other request with this key, or in this slot, is running. The caller calls end when its request
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

// beginOnce is underWay.begin. It refuses a session that a key with a scope has not opened.
func (e *Engine) beginOnce(ctx context.Context, o *job.Once) (end func(), err error) {
	if key := job.KeyOf(ctx); o.Numbered() && key != nil && !key.All() {
		if err := e.maySee(ctx, o.Session, key); err != nil {
			return nil, err
		}
	}
	return e.underWay.begin(ctx, o)
}

// maySee returns job.SessionNotFound unless a key with a scope has opened a session. It waits for the state only if the session
// is not there yet.
func (e *Engine) maySee(ctx context.Context, session job.ID, key *job.Key) error {
	for _, last := range [...]bool{false, true} {
		in, there, err := e.store.SessionInScope(key.By(), session)
		if err != nil {
			return err
		}
		if in {
			return nil
		}
		if there || last {
			break
		}
		if err := e.CatchUp(ctx, 0); err != nil {
			return errors.Join(ErrNotStored, err)
		}
	}
	return job.SessionNotFound
}

// mayRemember refuses a request if there is no room to keep its result. Each key needs a row. The results of a session
// need a bounded number of rows, which may be large. The bounds are soft: running requests may exceed them. An owner of
// keys or sessions runs out of room when they take as much as is still free, so that no client or runner locks out the
// rest.
func (e *Engine) mayRemember(ctx context.Context, o *job.Once) error {
	if o.Numbered() {
		return e.mayRememberNumber(o)
	}
	used := e.store.Totals().KeyBytes
	if used >= e.o.maxKeyBytes {
		return ErrTooManyKeys
	}
	owner := o.Owner(&job.KeyOf(ctx).By().Scope)
	own, err := e.store.KeysOf(owner)
	if err == nil && own.Bytes > e.o.maxKeyBytes-used {
		err = fmt.Errorf("%w for one client or runner: the keys of %q have %d bytes, and %d are left for all", ErrTooManyKeys, owner, own.Bytes, e.o.maxKeyBytes-used)
	}
	return err
}

// mayRememberNumber is mayRemember for a request of a session. It checks the owner's share only when more than half of
// the room is taken, because until then no owner can have more than is left.
func (e *Engine) mayRememberNumber(o *job.Once) error {
	used := e.store.Totals().SessionBytes
	if used <= e.o.maxSessionBytes/2 {
		return nil
	}
	owner, own, err := e.store.SessionBytes(o.Session)
	if left := e.o.maxSessionBytes - min(used, e.o.maxSessionBytes); err == nil && own > left {
		return fmt.Errorf("%w: what those of %q remember has about %d bytes, and %d are left for all; end sessions that are not used any more", ErrTooManySessionBytes, owner, own, left)
	}
	return err
}

// completedBefore returns the first results of a request's completions, which share one key, if an earlier request has
// carried out all of them, and otherwise nil.
func (e *Engine) completedBefore(ctx context.Context, commands []job.Complete) (ended []applied.Ended, last Receipt, err error) {
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
