package sim

import (
	"context"
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// numbering is a session as its user remembers it. It survives the server's crashes, as sessions do.
type numbering struct {
	mu      sync.Mutex
	session job.ID // zero: no session is open
	last    map[int]uint64
	taken   map[int]bool // slots of requests that may be repeated
}

func newNumbering() *numbering { return &numbering{last: map[int]uint64{}, taken: map[int]bool{}} }

// maxTaken bounds the slots that a user occupies, since a request that never gets an answer keeps its slot.
const maxTaken = 40

// number gives a request a number, in a slot that no other request uses. It opens a session if none is open. If the open
// gets no answer, or no slot is free, the request stays without a number.
func (u *user) number(n *numbering, o *job.Once) {
	n.mu.Lock()
	open, idle := !n.session.IsZero(), len(n.taken) == 0
	n.mu.Unlock()
	if open && idle && u.random.IntN(50) == 0 {
		u.end(n)
		open = false
	}
	if !open && !u.open(n) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	slot := 0
	for n.taken[slot] {
		slot++
	}
	if slot >= maxTaken {
		return
	}
	n.taken[slot] = true
	n.last[slot]++
	*o = job.Once{Session: n.session, Slot: slot, Number: n.last[slot]}
	u.w.account.mu.Lock()
	u.w.account.figures.Numbered++
	u.w.account.mu.Unlock()
}

// answered frees the slot of a request that nobody will repeat.
func (n *numbering) answered(o *job.Once) {
	if o.Numbered() {
		n.mu.Lock()
		delete(n.taken, o.Slot)
		n.mu.Unlock()
	}
}

func (u *user) open(n *numbering) bool {
	var session document.Session
	err := u.request(func(ctx context.Context) (err error) {
		session, _, err = u.s.engine.OpenSession(ctx, job.OpenSession{Runner: u.prefix() + "of the simulation"})
		return err
	})
	u.unexpected("open a session", err)
	u.s.log("session %v is opened: %v", session.ID, err)
	if err != nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session = session.ID
	clear(n.last)
	return true
}

// end ends a session. It ignores the answer.
func (u *user) end(n *numbering) {
	n.mu.Lock()
	id := n.session
	n.session = job.ID{}
	n.mu.Unlock()
	err := u.request(func(ctx context.Context) error {
		_, err := u.s.engine.EndSession(ctx, job.EndSession{Session: id})
		return err
	})
	u.unexpected("end a session", err)
	u.s.log("session %v is ended: %v", id, err)
}
