package pool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// lookInterval is the time between two looks at the members.
const lookInterval = 250 * time.Millisecond

// The errors of Acquire.
var (
	ErrClosed   = errors.New("the pool is closed")
	ErrUnwanted = errors.New("nobody waits for the run any more")
)

// Options describe a pool's members. All are required.
type Options[M comparable] struct {
	Most int // members at a time
	// Usable reports whether an idle member can be used again. The pool's lock is held, so it must not block.
	Usable func(M) bool
	// Kill immediately ends the work of a busy member, because the pool is closed. The pool's lock is held.
	Kill func(M)
	// Close ends a member that nobody uses, and returns when nothing of it is left.
	Close func(M)
	// Look is called four times a second for each busy or idle member. It may kill the member.
	Look func(M)
}

// Pool has members. Its methods may be called from many goroutines.
type Pool[M comparable] struct {
	options    Options[M]
	background sync.WaitGroup // goroutines that end members and look at them
	stop       chan struct{}  // closed by Close
	gone       chan struct{}  // closed when the pool is closed and its last member is gone

	mu      sync.Mutex
	idle    []idle[M] // in order of use, the latest at the end
	busy    map[M]bool
	places  int             // members that start, run or end
	waiting []chan struct{} // callers that wait for a place
	closed  bool
}

// idle is a member that nobody uses.
type idle[M comparable] struct {
	member M
	until  time.Time // when it ends
}

// New returns a pool without members.
func New[M comparable](o Options[M]) *Pool[M] {
	p := &Pool[M]{options: o, stop: make(chan struct{}), gone: make(chan struct{}), busy: map[M]bool{}}
	p.background.Go(p.look)
	return p
}

// Acquire returns an idle member that fits, or starts one. If the pool is full, it waits. The caller may use the member
// until it calls Release. Acquire returns ErrClosed, ErrUnwanted if nobody waits for the run any more, or start's
// error.
//
// Acquire calls wanted only if it has to wait. wanted returns a context that ends when nobody waits for the run any
// more, and a function that frees the context. fits is called with the pool's lock held.
func (p *Pool[M]) Acquire(wanted func() (context.Context, func()), fits func(M) bool, start func() (M, error)) (member M, err error) {
	p.mu.Lock()
	for {
		if p.closed {
			p.mu.Unlock()
			return member, ErrClosed
		}
		if member, ok := p.take(fits); ok {
			p.busy[member] = true
			p.mu.Unlock()
			return member, nil
		}
		if p.places < p.options.Most {
			p.places++
			p.mu.Unlock()
			return p.start(start)
		}
		if len(p.idle) > 0 { // the least recently used member makes room
			p.end(p.idle[0].member)
			p.idle = slices.Delete(p.idle, 0, 1)
		}
		turn := make(chan struct{})
		p.waiting = append(p.waiting, turn)
		p.mu.Unlock()
		ctx, free := wanted()
		select {
		case <-turn:
			free()
			p.mu.Lock()
		case <-ctx.Done():
			free()
			p.mu.Lock()
			if n := slices.Index(p.waiting, turn); n >= 0 {
				p.waiting = slices.Delete(p.waiting, n, n+1)
			} else {
				p.wake() // another caller can use the place
			}
			p.mu.Unlock()
			return member, ErrUnwanted
		}
	}
}

// take takes the idle member that fits and was used last. p.mu is held.
func (p *Pool[M]) take(fits func(M) bool) (member M, ok bool) {
	for n := len(p.idle) - 1; n >= 0; n-- {
		m := p.idle[n].member
		if !fits(m) {
			continue
		}
		p.idle = slices.Delete(p.idle, n, n+1)
		if p.options.Usable(m) {
			return m, true
		}
		p.end(m)
	}
	return member, false
}

// start starts a member in a place that the caller has taken.
func (p *Pool[M]) start(start func() (M, error)) (M, error) {
	m, err := start()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.leave()
		return m, err
	}
	p.busy[m] = true
	if p.closed {
		p.options.Kill(m)
	}
	return m, nil
}

// Release takes a member back. If the member is usable and keep is positive, the pool keeps it idle for that long.
// Otherwise the pool ends it, and Release does not wait for that.
func (p *Pool[M]) Release(m M, keep time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, m)
	if p.closed || keep <= 0 || !p.options.Usable(m) {
		p.end(m)
		return
	}
	p.idle = append(p.idle, idle[M]{m, time.Now().Add(keep)})
	p.wake()
}

// end ends a member that is no longer in any list. It does not wait. p.mu is held.
func (p *Pool[M]) end(m M) {
	p.background.Go(func() {
		p.options.Close(m)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leave()
	})
}

// leave frees the place of a member that is gone. p.mu is held.
func (p *Pool[M]) leave() {
	p.places--
	p.wake()
	if p.closed && p.places == 0 {
		close(p.gone)
	}
}

// wake lets the first waiting caller look for a place. p.mu is held.
func (p *Pool[M]) wake() {
	if len(p.waiting) > 0 {
		close(p.waiting[0])
		p.waiting = slices.Delete(p.waiting, 0, 1)
	}
}

// Sweep ends the idle members that are no longer usable or have been idle for too long.
func (p *Pool[M]) Sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.idle = slices.DeleteFunc(p.idle, func(i idle[M]) bool {
		if now.Before(i.until) && p.options.Usable(i.member) {
			return false
		}
		p.end(i.member)
		return true
	})
}

// look sweeps, and looks at each member, until Close.
func (p *Pool[M]) look() {
	ticks := time.NewTicker(lookInterval)
	defer ticks.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticks.C:
		}
		p.Sweep()
		s := p.State()
		for _, m := range slices.Concat(s.Idle, s.Busy) { // without the lock, because reading /proc for many takes a while
			p.options.Look(m)
		}
	}
}

// State is a snapshot of a pool.
type State[M comparable] struct {
	Idle, Busy []M // Idle in order of use, the latest at the end
	Places     int // members that start, run or end
	Waiting    int // calls of Acquire that wait for a place
}

// State returns a snapshot of the pool.
func (p *Pool[M]) State() State[M] {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State[M]{Busy: slices.Collect(maps.Keys(p.busy)), Places: p.places, Waiting: len(p.waiting)}
	for _, i := range p.idle {
		s.Idle = append(s.Idle, i.member)
	}
	return s
}

// Close kills the busy members and ends the idle ones. It waits until all are gone, so callers must release the members
// that they hold. Later calls of Acquire return ErrClosed. A second call of Close returns immediately.
func (p *Pool[M]) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.stop)
	for _, i := range p.idle {
		p.end(i.member)
	}
	p.idle = nil
	for m := range p.busy {
		p.options.Kill(m)
	}
	for _, turn := range p.waiting {
		close(turn)
	}
	p.waiting = nil
	if p.places == 0 {
		close(p.gone)
	}
	p.mu.Unlock()
	<-p.gone
	p.background.Wait()
}
