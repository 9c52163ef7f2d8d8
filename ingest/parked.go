package ingest

import (
	"container/list"
	"sync"

	"github.com/daybookq/daybook/job"
)

// lot is where claims park that found nothing. A queue that gains jobs wakes those that want them, in the order in which they
// came, and no more of them than there are jobs.
type lot struct {
	mu     sync.Mutex
	ticket uint64
	n      int
	spaces map[space]*list.List // of *parked, oldest first
	closed bool
}

// space is what a parked claim waits for: the jobs of a client and type; empty is any.
type space struct{ client, typ string }

// maxSpaces bounds the lists that one claim stands in. One that names more pairs waits for any job of its clients and looks again.
const maxSpaces = 1000

type parked struct {
	ticket uint64
	woken  chan space // capacity 1: the queue that has jobs; closed when the lot closes
	places map[space]*list.Element
}

func newLot() *lot { return &lot{spaces: map[space]*list.List{}} }

// park adds a claim; nil when the lot is full or closed. It must leave again.
func (l *lot) park(clients, types []string) *parked {
	any := []string{""}
	if len(clients) == 0 {
		clients = any
	}
	if len(types) == 0 || len(clients)*len(types) > maxSpaces {
		types = any
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= job.MaxParkedClaims || l.closed {
		return nil
	}
	l.n++
	l.ticket++
	p := &parked{ticket: l.ticket, woken: make(chan space, 1), places: map[space]*list.Element{}}
	for _, c := range clients {
		for _, t := range types {
			at := space{c, t}
			if _, twice := p.places[at]; twice {
				continue
			}
			if l.spaces[at] == nil {
				l.spaces[at] = list.New()
			}
			p.places[at] = l.spaces[at].PushBack(p)
		}
	}
	return p
}

// leave takes p out. A wake that it did not use goes to the next in line.
func (l *lot) leave(p *parked, used bool) {
	l.mu.Lock()
	l.remove(p)
	l.n--
	l.mu.Unlock()
	if !used {
		select {
		case at, open := <-p.woken:
			if open {
				l.wake(at.client, at.typ, 1)
			}
		default:
		}
	}
}

func (l *lot) remove(p *parked) {
	for at, element := range p.places {
		line := l.spaces[at]
		if line.Remove(element); line.Len() == 0 {
			delete(l.spaces, at)
		}
	}
	p.places = nil
}

// wake tells up to n of those who wait for jobs of a queue.
func (l *lot) wake(client, typ string, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; n > 0 && l.n > 0; n-- {
		var first *parked
		for _, at := range [...]space{{client, typ}, {client, ""}, {"", typ}, {"", ""}} {
			if line := l.spaces[at]; line != nil {
				if p := line.Front().Value.(*parked); first == nil || p.ticket < first.ticket {
					first = p
				}
			}
		}
		if first == nil {
			return
		}
		l.remove(first)
		first.woken <- space{client, typ}
	}
}

// size returns how many claims are parked.
func (l *lot) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// close sends everyone away, and whoever comes later.
func (l *lot) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for len(l.spaces) > 0 {
		for _, line := range l.spaces {
			p := line.Front().Value.(*parked)
			l.remove(p)
			close(p.woken)
			break
		}
	}
}
