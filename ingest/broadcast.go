package ingest

import "sync"

// broadcast wakes any number of goroutines at once. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{} // closed by send; nil while nobody waits
}

// next returns a channel that the next send closes. Look at the condition after the call; otherwise a send may be
// missed.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

// send wakes all who wait.
func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
