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
	// The last eighth of a budget is reserved for shares of at most SmallShareBytes, so that short requests do not wait
	// for long ones.
	SmallShareBytes = 64 << 10
	smallShareOf    = 8
)

// Budget bounds bytes in memory. A request takes a share of it. The share grows as the bytes arrive, so a request that
// only announces many bytes takes nothing from others.
//
// Shares that grow while they hold bytes could wait for each other forever. So the budget gives bytes to the oldest
// request first, and the oldest request always gets its bytes, even if none are free. The sum of all shares is then at
// most the total plus the largest possible share. All requests of one remote address get at most half of the total.
// This does not apply to loopback, because a proxy connects from there.
//
// golang.org/x/sync/semaphore does not have these rules. It serves calls in their order, so two shares that grow could
// wait for each other, one address could take everything, and a short request would wait for long ones.
type Budget struct {
	mu       sync.Mutex
	total    int64
	free     int64 // negative if the oldest request got more than was free
	arrivals uint64
	oldest   *Share // head of the list of all shares that hold bytes or wait for bytes
	newest   *Share
	waiting  [2][]*Share // [0]: large shares, [1]: small shares; each list has the oldest first
	peers    map[netip.Addr]int64
}

// Share is the part of a budget that one request holds. The zero value holds nothing and belongs to no budget.
type Share struct {
	Budget *Budget
	Peer   netip.Addr // not valid: no limit per address
	Held   int64

	// The budget's mu guards these.
	number       uint64 // in the order of arrival; 0 while the share is not in the list
	older, newer *Share
	wanted       int64
	ready        chan struct{} // closed when wanted is given
}

func NewBudget(bytes int64) *Budget {
	return &Budget{free: bytes, total: bytes, peers: map[netip.Addr]int64{}}
}

// Grow waits for n more bytes. It returns false if they did not become free in time, or if ctx is done. A share that
// could not grow keeps its bytes.
func (s *Share) Grow(ctx context.Context, n int64, wait time.Duration) bool {
	b := s.Budget
	b.mu.Lock()
	b.enter(s)
	small := b.isSmall(s, n)
	if len(b.waiting[small]) == 0 && b.fits(s, n) {
		b.give(s, n)
		b.mu.Unlock()
		return true
	}
	s.wanted, s.ready = n, make(chan struct{})
	at, _ := slices.BinarySearchFunc(b.waiting[small], s.number, func(w *Share, number uint64) int {
		return cmp.Compare(w.number, number)
	})
	b.waiting[small] = slices.Insert(b.waiting[small], at, s)
	b.serve()
	b.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.ready:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if s.wanted == 0 {
		return true // given since
	}
	s.wanted = 0
	b.waiting[small] = slices.DeleteFunc(b.waiting[small], func(w *Share) bool { return w == s })
	b.leave(s)
	b.serve()
	return false
}

// Force takes n bytes, even if they are not free.
func (s *Share) Force(n int64) {
	b := s.Budget
	b.mu.Lock()
	b.enter(s)
	b.give(s, n)
	b.mu.Unlock()
}

// Shrink returns n bytes to the budget.
func (s *Share) Shrink(n int64) {
	if n == 0 {
		return
	}
	b := s.Budget
	b.mu.Lock()
	b.Take(s, n)
	b.leave(s)
	b.serve()
	b.mu.Unlock()
}

// Release returns all bytes to the budget.
func (s *Share) Release() { s.Shrink(s.Held) }

func (b *Budget) isSmall(s *Share, n int64) int {
	if s.Held+n <= SmallShareBytes {
		return 1
	}
	return 0
}

func (b *Budget) fits(s *Share, n int64) bool {
	if s == b.oldest {
		return true
	}
	if b.isOver(s, n) {
		return false
	}
	if b.isSmall(s, n) == 1 {
		return b.free >= n
	}
	return b.free-n >= b.total/smallShareOf
}

// isOver reports whether n more bytes would exceed the limit of the share's remote address.
func (b *Budget) isOver(s *Share, n int64) bool {
	return s.Peer.IsValid() && b.peers[s.Peer]+n > b.total/2
}

func (b *Budget) give(s *Share, n int64) {
	b.free -= n
	s.Held += n
	if s.Peer.IsValid() {
		b.peers[s.Peer] += n
	}
}

func (b *Budget) Take(s *Share, n int64) {
	b.free += n
	s.Held -= n
	if s.Peer.IsValid() {
		if b.peers[s.Peer] -= n; b.peers[s.Peer] == 0 {
			delete(b.peers, s.Peer)
		}
	}
}

// enter adds a share to the list, unless it is there already.
func (b *Budget) enter(s *Share) {
	if s.number != 0 {
		return
	}
	b.arrivals++
	s.number = b.arrivals
	if s.older = b.newest; s.older != nil {
		s.older.newer = s
	} else {
		b.oldest = s
	}
	b.newest = s
}

// leave removes a share from the list if it holds nothing.
func (b *Budget) leave(s *Share) {
	if s.Held > 0 || s.number == 0 {
		return
	}
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		b.oldest = s.newer
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		b.newest = s.older
	}
	s.number, s.older, s.newer = 0, nil, nil
}

// serve gives free bytes to the waiting shares. If there are not enough free bytes for a share, younger shares of its
// list wait too. If a share waits only because of the limit of its address, younger shares do not wait for it.
func (b *Budget) serve() {
	for kind := range b.waiting {
		left := b.waiting[kind][:0]
		for i, s := range b.waiting[kind] {
			if !b.fits(s, s.wanted) {
				if left = append(left, s); !b.isOver(s, s.wanted) {
					left = append(left, b.waiting[kind][i+1:]...)
					break
				}
				continue
			}
			b.give(s, s.wanted)
			s.wanted = 0
			close(s.ready)
		}
		clear(b.waiting[kind][len(left):])
		b.waiting[kind] = left
	}
}

// Used returns the number of bytes that all shares hold.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}

// Total returns the number of bytes of the budget.
func (b *Budget) Total() int64 { return b.total }
