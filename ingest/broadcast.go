package ingest

import "sync"

// broadcast lets any number wait for the next telling. The zero value is ready.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{} // closed by tell; nil while nobody waits
}

// next returns a channel that is closed by the next tell. Look at the condition after calling it, or a tell may be missed.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}
