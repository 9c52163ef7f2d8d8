package web

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// MaxBudgetWait is the longest time that a body or answer waits for its share before the server refuses the
	// request. It is longer than PaceTime: clients that stop lose their connections sooner, and the waiting requests
	// get their shares.
	MaxBudgetWait = 8 * time.Second
	// The last eighth of a lane is reserved for shares of at most SmallShareBytes, so that short requests do not wait
	// for long ones.
	SmallShareBytes = 64 << 10
	smallShareOf    = 8
)

// Budget is the memory for one purpose: for bodies that arrive, for answers, or for things that the server keeps while a
// client waits. It consists of lanes, one for each kind of request, so that no kind can use the memory of another:
// creates never prevent runners from completing jobs, and lists never prevent them from claiming jobs.
type Budget struct{ lanes []*Lane }

// Lane adds a lane to the budget.
func (b *Budget) Lane(name string, bytes int64) *Lane {
	l := NewLane(name, bytes)
	b.lanes = append(b.lanes, l)
	return l
}

// Lanes returns the lanes of the budget.
func (b *Budget) Lanes() []*Lane { return b.lanes }

// Lane bounds bytes in memory. A request takes a share of it. The share grows as the bytes arrive, so a request that
// only announces many bytes takes nothing from others.
//
// Shares that grow while they hold bytes could wait for each other forever. So the lane gives bytes to the oldest
// request first, and the oldest request always gets its bytes, even if none are free. The sum of all shares is then at
// most the total plus the largest possible share. All requests of one remote address get at most half of the total.
// This does not apply to loopback, because a proxy connects from there.
//
// golang.org/x/sync/semaphore does not have these rules. It serves calls in their order, so two shares that grow could
// wait for each other, one address could take everything, and a short request would wait for long ones.
type Lane struct {
	name  string
	total int64

	mu       sync.Mutex // guards the fields below
	free     int64      // negative if the oldest request got more than was free
	arrivals uint64
	oldest   *Share // head of the list of all shares that hold bytes or wait for bytes
	newest   *Share
	waiting  [2][]*Share // [0]: large shares, [1]: small shares; each list has the oldest first
	peers    map[netip.Addr]int64
}

// Share is the part of a lane that one request holds. The zero value holds nothing and belongs to no lane.
type Share struct {
	Lane *Lane
	Peer netip.Addr // not valid: no limit per address
	Held int64

	// The lane's mu guards these.
	number       uint64 // in the order of arrival; 0 while the share is not in the list
	older, newer *Share
	wanted       int64
	ready        chan struct{} // closed when wanted is given
}

// NewLane returns a lane that belongs to no budget.
func NewLane(name string, bytes int64) *Lane {
	return &Lane{name: name, free: bytes, total: bytes, peers: map[netip.Addr]int64{}}
}

// Grow waits for n more bytes. It returns false if they did not become free in time, or if ctx is done. A share that
// could not grow keeps its bytes.
func (s *Share) Grow(ctx context.Context, n int64, wait time.Duration) bool {
	l := s.Lane
	l.mu.Lock()
	l.enter(s)
	small := l.isSmall(s, n)
	if len(l.waiting[small]) == 0 && l.fits(s, n) {
		l.give(s, n)
		l.mu.Unlock()
		return true
	}
	s.wanted, s.ready = n, make(chan struct{})
	at, _ := slices.BinarySearchFunc(l.waiting[small], s.number, func(w *Share, number uint64) int {
		return cmp.Compare(w.number, number)
	})
	l.waiting[small] = slices.Insert(l.waiting[small], at, s)
	l.serve()
	l.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.ready:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if s.wanted == 0 {
		return true // given since
	}
	s.wanted = 0
	l.waiting[small] = slices.DeleteFunc(l.waiting[small], func(w *Share) bool { return w == s })
	l.leave(s)
	l.serve()
	return false
}

// Force takes n bytes, even if they are not free.
func (s *Share) Force(n int64) {
	l := s.Lane
	l.mu.Lock()
	l.enter(s)
	l.give(s, n)
	l.mu.Unlock()
}

// Shrink returns n bytes to the lane.
func (s *Share) Shrink(n int64) {
	if n == 0 {
		return
	}
	l := s.Lane
	l.mu.Lock()
	l.Take(s, n)
	l.leave(s)
	l.serve()
	l.mu.Unlock()
}

// Release returns all bytes to the lane.
func (s *Share) Release() { s.Shrink(s.Held) }

func (l *Lane) isSmall(s *Share, n int64) int {
	if s.Held+n <= SmallShareBytes {
		return 1
	}
	return 0
}

func (l *Lane) fits(s *Share, n int64) bool {
	if s == l.oldest {
		return true
	}
	if l.isOver(s, n) {
		return false
	}
	if l.isSmall(s, n) == 1 {
		return l.free >= n
	}
	return l.free-n >= l.total/smallShareOf
}

// isOver reports whether n more bytes would exceed the limit of the share's remote address.
func (l *Lane) isOver(s *Share, n int64) bool {
	return s.Peer.IsValid() && l.peers[s.Peer]+n > l.total/2
}

func (l *Lane) give(s *Share, n int64) {
	l.free -= n
	s.Held += n
	if s.Peer.IsValid() {
		l.peers[s.Peer] += n
	}
}

func (l *Lane) Take(s *Share, n int64) {
	l.free += n
	s.Held -= n
	if s.Peer.IsValid() {
		if l.peers[s.Peer] -= n; l.peers[s.Peer] == 0 {
			delete(l.peers, s.Peer)
		}
	}
}

// enter adds a share to the list, unless it is there already.
func (l *Lane) enter(s *Share) {
	if s.number != 0 {
		return
	}
	l.arrivals++
	s.number = l.arrivals
	if s.older = l.newest; s.older != nil {
		s.older.newer = s
	} else {
		l.oldest = s
	}
	l.newest = s
}

// leave removes a share from the list if it holds nothing.
func (l *Lane) leave(s *Share) {
	if s.Held > 0 || s.number == 0 {
		return
	}
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		l.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		l.newest = s.older
	}
	s.number, s.older, s.newer = 0, nil, nil
}

// serve gives free bytes to the waiting shares. If there are not enough free bytes for a share, younger shares of its
// list wait too. If a share waits only because of the limit of its address, younger shares do not wait for it.
func (l *Lane) serve() {
	for kind := range l.waiting {
		left := l.waiting[kind][:0]
		for i, s := range l.waiting[kind] {
			if !l.fits(s, s.wanted) {
				if left = append(left, s); !l.isOver(s, s.wanted) {
					left = append(left, l.waiting[kind][i+1:]...)
					break
				}
				continue
			}
			l.give(s, s.wanted)
			s.wanted = 0
			close(s.ready)
		}
		clear(l.waiting[kind][len(left):])
		l.waiting[kind] = left
	}
}

// Used returns the number of bytes that all shares hold.
func (l *Lane) Used() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total - l.free
}

// Name returns the name of the lane in metrics.
func (l *Lane) Name() string { return l.name }

// Total returns the number of bytes of the lane.
func (l *Lane) Total() int64 { return l.total }
