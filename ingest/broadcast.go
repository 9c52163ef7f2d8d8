package ingest

import "sync"

// broadcast wakes all goroutines that wait for it. The zero value is ready for use.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{} // closed by send; nil while no goroutine waits; guarded by mu
}

// next returns a channel that the next send closes. The caller must check its condition after this call, because
// otherwise it may miss a send.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

// send wakes all waiting goroutines.
func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
