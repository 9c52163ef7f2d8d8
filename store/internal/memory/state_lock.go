package memory

import (
	"sync"
	"time"
)

// stateLock is held by one goroutine that changes the guarded fields, or by any number of queries. Like sync.RWMutex,
// it serves waiters in turn: queries that arrive while a change waits are served after this change and before the next
// one. Unlike sync.RWMutex, a query gives up if the change that it waits for takes too long. Two alternatives were
// slower: with a goroutine and a timer for each waiting query, around a sync.RWMutex, or with a queue of channels, all
// work for a job took an eighth longer.
type stateLock struct {
	patience time.Duration // how long a query waits for one turn, or up to a quarter longer

	mu       sync.Mutex // guards the fields below
	free     sync.Cond  // signalled when a change can begin
	turned   sync.Cond  // signalled when turn has grown, or slow was set
	held     bool       // by a change
	holding  int        // queries
	changing int        // waiting changes
	asking   int        // waiting queries
	turn     uint64     // incremented by each change
	looks    int        // how often look has found waiting queries in this turn
	slow     bool       // a query has waited in vain, so later queries do not wait until the change ends
	timer    *time.Timer
	timed    bool // timer will call look
}

// Open makes the lock ready for its first use.
func (l *stateLock) Open(patience time.Duration) {
	l.patience, l.free.L, l.turned.L = patience, &l.mu, &l.mu
}

// Lock waits until no other goroutine holds the lock.
func (l *stateLock) Lock() {
	l.mu.Lock()
	l.changing++
	for l.held || l.holding > 0 {
		l.free.Wait()
	}
	l.changing--
	l.held = true
	l.mu.Unlock()
}

// Unlock hands the lock to all waiting queries. If there are none, the next change can begin.
func (l *stateLock) Unlock() {
	l.mu.Lock()
	l.held, l.slow = false, false
	l.turn++
	if l.asking > 0 {
		l.holding, l.asking = l.holding+l.asking, 0
		l.turned.Broadcast()
	} else if l.changing > 0 {
		l.free.Signal()
	}
	l.mu.Unlock()
}

// RLock waits until no goroutine changes the guarded fields.
func (l *stateLock) RLock() { l.share(false) }

// TryRLock is RLock for a query that gives up: it returns false if one command is applied for longer than patience.
func (l *stateLock) TryRLock() bool { return l.share(true) }

func (l *stateLock) share(giveUp bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held && l.changing == 0 {
		l.holding++
		return true
	}
	if l.asking++; l.asking == 1 {
		l.looks = 0
		l.lookLater()
	}
	for turn := l.turn; turn == l.turn; l.turned.Wait() {
		if giveUp && l.slow {
			l.asking--
			return false
		}
	}
	return true // Unlock has counted the query
}

func (l *stateLock) RUnlock() {
	l.mu.Lock()
	if l.holding--; l.holding == 0 && l.changing > 0 {
		l.free.Signal()
	}
	l.mu.Unlock()
}

// lookLater makes look run after a quarter of patience. The caller holds l.mu.
func (l *stateLock) lookLater() {
	switch {
	case l.timed:
	case l.timer == nil:
		l.timer = time.AfterFunc(l.patience/4, l.Look)
	default:
		l.timer.Reset(l.patience / 4)
	}
	l.timed = true
}

// Look makes queries give up that have waited for too long.
func (l *stateLock) Look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timed = false
	if l.asking == 0 {
		return
	}
	if l.looks++; l.looks > 4 { // the first may come soon after the query
		l.slow = true
		l.turned.Broadcast()
		return
	}
	l.lookLater()
}
