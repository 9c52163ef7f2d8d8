package api

import (
	"context"
	"sync"
	"time"
)

// The bytes of request bodies that may be in memory at once. Creates have a budget of their own, so that bulk posts never keep a
// runner from reporting. A create holds its share until it is synced; behind that the journal has a bound of its own.
const (
	bulkBudgetBytes    = 128 << 20 // sixteen of the largest bodies: more do not make the disk faster
	controlBudgetBytes = 64 << 20
	// maxBudgetWait is how long a body may wait for its share, unread in the socket, before the answer is 429.
	maxBudgetWait = 5 * time.Second
)

// budget is a counting semaphore in bytes, first come first served, so that a large body is not starved by small ones.
type budget struct {
	mu      sync.Mutex
	free    int64
	waiting []*share // in order of arrival
	total   int64
}

type share struct {
	bytes int64
	ready chan struct{} // closed when the bytes are given
}

func newBudget(bytes int64) *budget { return &budget{free: bytes, total: bytes} }

// acquire waits for n bytes; false when they did not come in time or ctx is done.
func (b *budget) acquire(ctx context.Context, n int64, wait time.Duration) bool {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return true
	}
	w := &share{bytes: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve() // those behind may fit where this one did not
			return false
		}
	}
	return true // given in the meantime
}

// tryAcquire takes n bytes if they are there and nobody waits. It is for more bytes to a body that holds some already: were it
// to wait, bodies could wait for each other.
func (b *budget) tryAcquire(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || b.free < n {
		return false
	}
	b.free -= n
	return true
}

func (b *budget) release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	b.free += n
	b.serve()
	b.mu.Unlock()
}

// serve gives those who wait what is free, in order. The caller holds mu.
func (b *budget) serve() {
	n := 0
	for n < len(b.waiting) && b.waiting[n].bytes <= b.free {
		b.free -= b.waiting[n].bytes
		close(b.waiting[n].ready)
		n++
	}
	b.waiting = b.waiting[n:]
}

// used is the number of bytes that are given out.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}
