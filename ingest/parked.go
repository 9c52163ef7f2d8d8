package ingest

import (
	"container/list"
	"slices"
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

// maxSpaces bounds the lists that one claim stands in, since a hundred thousand may be parked. One that names more pairs stands among
// those who wait for any job, and is passed over by what it does not want.
const maxSpaces = 16

type parked struct {
	ticket         uint64
	clients, types []string   // what it wants; empty: all
	woken          chan space // capacity 1: the queue that has jobs; closed when the lot closes
	places         map[space]*list.Element
}

func newLot() *lot { return &lot{spaces: map[space]*list.List{}} }

// park adds a claim; nil when the lot is full or closed. It must leave again.
func (l *lot) park(clients, types []string) *parked {
	any := []string{""}
	p := &parked{clients: clients, types: types, woken: make(chan space, 1), places: map[space]*list.Element{}}
	if len(clients) == 0 {
		clients = any
	}
	if len(types) == 0 {
		types = any
	}
	if len(clients)*len(types) > maxSpaces {
		clients, types = any, any
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= job.MaxParkedClaims || l.closed {
		return nil
	}
	l.n++
	l.ticket++
	p.ticket = l.ticket
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

// leave takes p out, and returns the queue for which it was woken meanwhile, if it was and has not heard of it.
func (l *lot) leave(p *parked) (at space, woken bool) {
	l.mu.Lock()
	l.remove(p)
	l.n--
	l.mu.Unlock()
	select {
	case at, woken = <-p.woken:
		return at, woken
	default:
		return space{}, false
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
			if p := l.firstIn(at, client, typ); p != nil && (first == nil || p.ticket < first.ticket) {
				first = p
			}
		}
		if first == nil {
			return
		}
		l.remove(first)
		first.woken <- space{client, typ}
	}
}

// firstIn returns the first of a list who wants the jobs of a queue.
func (l *lot) firstIn(at space, client, typ string) *parked {
	line := l.spaces[at]
	if line == nil {
		return nil
	}
	for element := line.Front(); element != nil; element = element.Next() {
		if p := element.Value.(*parked); p.wants(client, typ) {
			return p
		}
	}
	return nil
}

func (p *parked) wants(client, typ string) bool {
	return (len(p.clients) == 0 || slices.Contains(p.clients, client)) && (len(p.types) == 0 || slices.Contains(p.types, typ))
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
