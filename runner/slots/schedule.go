package slots

import (
	"container/heap"
	"container/list"
)

const (
	// oneSlot is the stride of a run of one slot in a share of weight 1. It is large so that strides can be whole
	// numbers: even with the highest weight, rounding changes a stride by less than a thousandth.
	oneSlot = 1 << 30
	// maxPass is the pass at which all passes are lowered. A stride is at most MaxSlots * oneSlot = 1<<50, so a pass
	// stays below 1<<63.
	maxPass = 1 << 62
)

// schedule is the state of an allocator.
type schedule struct {
	total, free int
	now         int64 // the pass at which the last run began; no share in turns has a smaller pass
	turns       turns // shares with waiting callers that are below their limit of runs
	shares      map[*Share]bool
	registered  int // number of shares registered so far
}

// caller is a waiting call of Acquire.
type caller struct {
	granted chan struct{} // closed when its run may begin
	began   bool
}

// register adds a share.
func (s *schedule) register(share *Share) {
	s.registered++
	share.order, share.place = s.registered, -1
	s.shares[share] = true
}

// wait adds a caller to a share, and begins all runs that may begin.
func (s *schedule) wait(share *Share, c *caller) *list.Element {
	e := share.waiting.PushBack(c)
	s.changed(share)
	return e
}

// leave removes a caller that has stopped waiting.
func (s *schedule) leave(share *Share, e *list.Element) {
	share.waiting.Remove(e)
	s.changed(share)
}

// release returns the slots of a run.
func (s *schedule) release(share *Share) {
	share.running--
	s.free += share.slots
	s.changed(share)
}

// unregister removes a share and its callers. Its runs keep their slots until they are released.
func (s *schedule) unregister(share *Share) {
	delete(s.shares, share)
	share.waiting.Init()
	s.changed(share)
}

// changed begins all runs that may begin after a share has changed.
func (s *schedule) changed(share *Share) {
	s.place(share)
	for len(s.turns) > 0 && s.turns[0].slots <= s.free {
		s.begin(s.turns[0])
	}
}

// place adds a share to the turns, or removes it from them.
func (s *schedule) place(share *Share) {
	hasTurn := share.waiting.Len() > 0 && share.running < share.most
	switch {
	case hasTurn && share.place < 0:
		share.pass = max(share.pass, s.now)
		heap.Push(&s.turns, share)
	case !hasTurn && share.place >= 0:
		heap.Remove(&s.turns, share.place)
	}
}

// begin begins a run of the share that is next.
func (s *schedule) begin(share *Share) {
	c := share.waiting.Remove(share.waiting.Front()).(*caller)
	share.running++
	s.free -= share.slots
	s.now = share.pass
	share.pass += share.stride
	heap.Fix(&s.turns, share.place)
	s.place(share)
	c.began = true
	close(c.granted)
	if s.now >= maxPass {
		s.lower()
	}
}

// lower subtracts the same number from all passes. This changes no order: shares that are not in turns and have a
// smaller pass than now would continue at now anyway.
func (s *schedule) lower() {
	for share := range s.shares {
		share.pass = max(share.pass-s.now, 0)
	}
	s.now = 0
}

// turns is a heap of shares, the next one at the top. If passes are equal, the older share is first.
type turns []*Share

func (t turns) Len() int { return len(t) }

func (t turns) Less(i, j int) bool {
	if t[i].pass != t[j].pass {
		return t[i].pass < t[j].pass
	}
	return t[i].order < t[j].order
}

func (t turns) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

func (t *turns) Push(x any) {
	share := x.(*Share)
	share.place = len(*t)
	*t = append(*t, share)
}

func (t *turns) Pop() any {
	last := len(*t) - 1
	share := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	share.place = -1
	return share
}
