package slots

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
)

const (
	// MaxSlots bounds the slots of an allocator, and MaxWeight the weight of a share, so that passes cannot overflow.
	MaxSlots  = 1 << 20
	MaxWeight = 1 << 20
)

// ErrUnregistered is returned by Acquire if the share was unregistered.
var ErrUnregistered = errors.New("the handler is not registered any more")

// Allocator divides a runner's slots. Its methods, and its shares' methods, may be called from many goroutines.
type Allocator struct {
	mu       sync.Mutex
	schedule schedule
}

// New returns an allocator of 1 to MaxSlots slots.
func New(total int) (*Allocator, error) {
	if total < 1 || total > MaxSlots {
		return nil, fmt.Errorf("a runner must have 1 to %d slots, not %d", MaxSlots, total)
	}
	return &Allocator{schedule: schedule{total: total, free: total, shares: map[*Share]bool{}}}, nil
}

// Share is a handler's share of the slots.
type Share struct {
	allocator   *Allocator
	name        string
	slots, most int
	stride      int64 // a run advances pass by this
	order       int   // order of registration

	// Guarded by allocator.mu:
	pass    int64
	running int       // runs
	waiting list.List // of *caller, in order of arrival
	place   int       // index in the allocator's turns, or -1
	gone    bool      // unregistered
}

// Register adds a handler. weight is relative to the other handlers, slots is the number that each run takes, and most
// is the limit of runs at a time. It returns an error if an argument is out of range, or if a run takes more slots than
// the allocator has and could never begin.
func (a *Allocator) Register(name string, weight, slots, most int) (*Share, error) {
	switch {
	case weight < 1 || weight > MaxWeight:
		return nil, fmt.Errorf("handler %s: the weight must be 1 to %d, not %d", name, MaxWeight, weight)
	case slots < 1:
		return nil, fmt.Errorf("handler %s: a run must take at least one slot, not %d", name, slots)
	case slots > a.schedule.total:
		return nil, fmt.Errorf("handler %s: a run takes %d slots, and the runner has %d; start the runner with more, or lower options.slots", name, slots, a.schedule.total)
	case most < 1:
		return nil, fmt.Errorf("handler %s: at least one run at a time must be allowed, not %d", name, most)
	}
	s := &Share{allocator: a, name: name, slots: slots, most: most, stride: int64(slots) * oneSlot / int64(weight)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.schedule.register(s)
	return s, nil
}

// Unregister removes the share. Waiting callers get ErrUnregistered. Runs keep their slots until Release.
func (s *Share) Unregister() {
	a := s.allocator
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	for e := s.waiting.Front(); e != nil; e = e.Next() {
		close(e.Value.(*caller).granted)
	}
	a.schedule.unregister(s)
}

// Acquire waits until a run may begin, and takes its slots. The caller must return them with Release. If ctx ends
// first, Acquire takes nothing and returns the cause. It returns ErrUnregistered if the share was unregistered.
func (s *Share) Acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a := s.allocator
	c := &caller{granted: make(chan struct{})}
	a.mu.Lock()
	if s.gone {
		a.mu.Unlock()
		return ErrUnregistered
	}
	e := a.schedule.wait(s, c)
	began := c.began
	a.mu.Unlock()
	if began {
		return nil
	}
	select {
	case <-c.granted:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case c.began: // even if the context ended at the same moment
		return nil
	case s.gone:
		return ErrUnregistered
	}
	a.schedule.leave(s, e)
	return context.Cause(ctx)
}

// Release returns the slots of a run.
func (s *Share) Release() {
	a := s.allocator
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.running == 0 {
		panic(fmt.Sprintf("slots: handler %s releases a run, and has none", s.name))
	}
	a.schedule.release(s)
}
