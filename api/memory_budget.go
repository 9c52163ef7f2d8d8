package api

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The bytes of request bodies that may be in memory at once. Creates have a budget of their own, so that bulk posts
// never keep a runner from reporting. A create holds its share until it is synced; after that the journal has a bound
// of its own.
const (
	bulkBudgetBytes    = 128 << 20 // sixteen of the largest bodies: more do not make the disk faster
	controlBudgetBytes = 64 << 20
	// maxBudgetWait is how long a body or answer may wait for its share before the answer is a refusal. It is longer
	// than paceTime, so that those that wait for others that do not proceed get their shares.
	maxBudgetWait = 8 * time.Second
	// A share of at most smallShareBytes may use the last eighth of a budget, which larger ones must leave free: short
	// requests do not wait for long ones.
	smallShareBytes = 64 << 10
	smallShareOf    = 8
)

// budget bounds bytes in memory. A request takes a share of it, which grows as the bytes arrive: one that only
// announces many bytes keeps nothing from others.
//
// Shares that grow while they hold bytes could wait for each other for ever. So bytes are given in the order in which
// requests arrived, and the oldest gets them even if there are none: the sum is at most the total and one largest
// share. All requests of one remote address get at most half of the total; loopback, from which a proxy connects, has
// no such bound.
//
// golang.org/x/sync/semaphore has neither of these rules: it serves requests in the order of their calls, so that two
// shares which grow can wait for each other, one address can take everything, and a short request waits for long ones.
type budget struct {
	mu       sync.Mutex
	total    int64
	free     int64 // below zero by what the oldest got beyond the total
	arrivals uint64
	oldest   *share // head of the list of all shares that hold or await bytes
	newest   *share
	waiting  [2][]*share // large and small ones, oldest first
	peers    map[netip.Addr]int64
}

// share is what one request holds of a budget. The zero share holds nothing, of none.
type share struct {
	budget *budget
	peer   netip.Addr // not valid: without a bound
	held   int64

	// mu of the budget guards these.
	number       uint64 // by arrival; 0 while it is not in the list
	older, newer *share
	wanted       int64
	ready        chan struct{} // closed when wanted is given
}

func newBudget(bytes int64) *budget {
	return &budget{free: bytes, total: bytes, peers: map[netip.Addr]int64{}}
}

// grow waits for n more bytes; false when they did not become free in time or ctx is done. A share that could not grow
// keeps what it has.
func (s *share) grow(ctx context.Context, n int64, wait time.Duration) bool {
	b := s.budget
	b.mu.Lock()
	if s.number == 0 {
		b.arrivals++
		s.number = b.arrivals
		if s.older = b.newest; s.older != nil {
			s.older.newer = s
		} else {
			b.oldest = s
		}
		b.newest = s
	}
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
		return true // given in the meantime
	}
	s.wanted = 0
	b.waiting[small] = slices.DeleteFunc(b.waiting[small], func(w *share) bool { return w == s })
	b.leave(s)
	b.serve()
	return false
}

// shrink gives n bytes back.
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

// release gives everything back.
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

// isOver reports whether n more bytes would be more than a remote address may have.
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

// serve gives those who wait what is free. A large share that waits for free bytes keeps younger large ones waiting;
// one that waits for others of its own address does not.
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

// used is the number of bytes that are given out.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total - b.free
}
