package lsm

import "sync"

// gate admits readers until it is closed, and close waits for the readers inside. A sync.RWMutex would deadlock here,
// because a reader inside may enter again while close waits.
type gate struct {
	mu     sync.Mutex
	inside int
	shut   chan struct{} // made by close; closed when the last reader has left
}

// enter reports whether the gate is open. A reader that entered must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.shut != nil {
		close(g.shut)
	}
}

// close admits no further readers, and waits for the readers inside.
func (g *gate) close() {
	g.mu.Lock()
	if g.shut == nil {
		if g.shut = make(chan struct{}); g.inside == 0 {
			close(g.shut)
		}
	}
	g.mu.Unlock()
	<-g.shut
}
