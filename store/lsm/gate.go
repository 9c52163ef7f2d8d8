package lsm

import "sync"

// gate admits readers until it is closed, and close waits for those inside. A sync.RWMutex cannot be used here: a
// reader that is inside may enter again while close waits, which would deadlock.
type gate struct {
	mu     sync.Mutex
	inside int
	shut   chan struct{} // made by close; closed when no reader is inside any more
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

// close admits no further readers, and waits for those inside.
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
