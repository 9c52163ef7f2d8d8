package api

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// These budgets bound the bytes of request bodies in memory. Creates have a separate budget, so that bulk posts never
// prevent runners from completing jobs. A create holds its share until it is synced. From then on, the journal's own
// limit applies.
const (
	bulkBudgetBytes    = 128 << 20 // sixteen of the largest bodies, which is enough to keep the disk busy
	controlBudgetBytes = 64 << 20
	// maxBudgetWait is the longest time that a body or answer waits for its share before the server refuses the
	// request. It is longer than paceTime: clients that stop lose their connections sooner, and the waiting requests
	// get their shares.
	maxBudgetWait = 8 * time.Second
	// The last eighth of a budget is reserved for shares of at most smallShareBytes, so that short requests do not wait
	// for long ones.
	smallShareBytes = 64 << 10
	smallShareOf    = 8
)

// budget bounds bytes in memory. A request takes a share of it. The share grows as the bytes arrive, so a request that
// only announces many bytes takes nothing from others.
//
// Shares that grow while they hold bytes could wait for each other forever. So the budget gives bytes to the oldest
// request first, and the oldest request always gets its bytes, even if none are free. The sum of all shares is then at
// most the total plus the largest possible share. All requests of one remote address get at most half of the total.
// Loopback has no such limit, because a proxy connects from there.
//
// golang.org/x/sync/semaphore does not have these rules. It serves calls in their order, so two shares that grow could
// wait for each other, one address could take everything, and a short request would wait for long ones.
type budget struct {
	mu       sync.Mutex
	total    int64
	free     int64 // negative if the oldest request got more than was free
	arrivals uint64
	oldest   *share // head of the list of all shares that hold bytes or wait for bytes
	newest   *share
	waiting  [2][]*share // [0]: large shares, [1]: small shares; each list has the oldest first
	peers    map[netip.Addr]int64
}

// share is the part of a budget that one request holds. The zero value holds nothing and belongs to no budget.
type share struct {
	budget *budget
	peer   netip.Addr // not valid: no limit per address
	held   int64

	// The budget's mu guards these.
	number       uint64 // in the order of arrival; 0 while the share is not in the list
	older, newer *share
	wanted       int64
	ready        chan struct{} // closed when wanted is given
}

func newBudget(bytes int64) *budget {
	return &budget{free: bytes, total: bytes, peers: map[netip.Addr]int64{}}
}

// grow waits for n more bytes. It returns false if they did not become free in time, or if ctx is done. A share that
// could not grow keeps its bytes.
func (s *share) grow(ctx context.Context, n int64, wait time.Duration) bool {
	b := s.budget
	b.mu.Lock()
	b.enter(s)
	small := b.isSmall(s, n)
	if len(b.waiting[small]) == 0 && b.fits(s, n) {
		b.give(s, n)
		b.mu.Unlock()
		return true
	}
	s.wanted, s.ready = n, make(chan struct{})
	at, _ := slices.BinarySearchFunc(b.waiting[small], s.number, func(w *share, number uint64) int {
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
	b.waiting[small] = slices.DeleteFunc(b.waiting[small], func(w *share) bool { return w == s })
	b.leave(s)
	b.serve()
	return false
}

// force takes n bytes, even if they are not free.
func (s *share) force(n int64) {
	b := s.budget
	b.mu.Lock()
	b.enter(s)
	b.give(s, n)
	b.mu.Unlock()
}

// shrink returns n bytes to the budget.
func (s *share) shrink(n int64) {
	if n == 0 {
		return
	}
	b := s.budget
	b.mu.Lock()
	b.take(s, n)
	b.leave(s)
	b.serve()
	b.mu.Unlock()
}

// release returns all bytes to the budget.
func (s *share) release() { s.shrink(s.held) }

func (b *budget) isSmall(s *share, n int64) int {
	if s.held+n <= smallShareBytes {
		return 1
	}
	return 0
}

func (b *budget) fits(s *share, n int64) bool {
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
func (b *budget) isOver(s *share, n int64) bool {
	return s.peer.IsValid() && b.peers[s.peer]+n > b.total/2
}

func (b *budget) give(s *share, n int64) {
	b.free -= n
	s.held += n
	if s.peer.IsValid() {
		b.peers[s.peer] += n
	}
}

func (b *budget) take(s *share, n int64) {
	b.free += n
	s.held -= n
	if s.peer.IsValid() {
		if b.peers[s.peer] -= n; b.peers[s.peer] == 0 {
			delete(b.peers, s.peer)
		}
	}
}

// enter adds a share to the list, unless it is there already.
func (b *budget) enter(s *share) {
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
func (b *budget) leave(s *share) {
	if s.held > 0 || s.number == 0 {
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
func (b *budget) serve() {
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

// used returns the number of bytes that all shares hold.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}
