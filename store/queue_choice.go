package store

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/daybookq/daybook/store/lsm"
)

// newest returns the ready queue of a choice with the job that became pending last, or nil. Only of those that may be
// it is looked up what they have.
func (qs *queues) newest(c choice, o *lsm.Overlay) *queue {
	for {
		q := qs.best(qs.tails, c)
		if q == nil || q.tailKnown {
			return q
		}
		tail := q.findTail(o)
		q.tailKnown = true
		qs.rankTail(q, readyRank(tail))
	}
}

func (qs *queues) choice(clients, types []string) choice {
	c := choice{clients: clients, types: types}
	if len(clients) > 0 && len(types) > 0 {
		for _, client := range clients {
			for _, typ := range types {
				if q := qs.byName[queueName{client, typ}]; q != nil {
					c.pairs = append(c.pairs, q)
				}
			}
		}
	}
	return c
}

// best returns the first ready queue of a choice in the order of an index, or nil.
func (qs *queues) best(x *queueIndex, c choice) (best *queue) {
	better := func(q *queue) {
		if q != nil && q.rank != "" && (best == nil || x.less(q, best)) {
			best = q
		}
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		best, _ = x.all.Min()
	case len(c.types) == 0:
		for _, client := range c.clients {
			better(x.ofClient(client))
		}
	case len(c.clients) == 0:
		for _, typ := range c.types {
			better(x.ofType(typ))
		}
	default:
		for _, q := range c.pairs {
			better(q)
		}
	}
	return best
}

// ready calls visit with the ready queues of some clients and types, until it returns false. An empty list means all.
func (qs *queues) ready(clients, types []string, visit func(q *queue) bool) {
	more := true
	switch {
	case len(clients) == 0 && len(types) == 0:
		qs.heads.all.Scan(visit)
	case len(types) == 0:
		for i := 0; i < len(clients) && more; i++ {
			qs.heads.eachOfClient(clients[i], func(q *queue) bool { more = visit(q); return more })
		}
	case len(clients) == 0:
		for i := 0; i < len(types) && more; i++ {
			qs.heads.eachOfType(types[i], func(q *queue) bool { more = visit(q); return more })
		}
	default:
		for _, client := range clients {
			for _, typ := range types {
				if q := qs.byName[queueName{client, typ}]; more && q != nil && q.rank != "" {
					more = visit(q)
				}
			}
		}
	}
}

// firstReady returns up to n ready queues of a choice that have a job of the highest priority, in the order of their
// heads.
func (qs *queues) firstReady(c choice, n int) (found []*queue) {
	add := func(clients, types []string) {
		of := n
		qs.ready(clients, types, func(q *queue) bool {
			found = append(found, q)
			of--
			return of > 0
		})
	}
	switch {
	case len(c.clients) > 0 && len(c.types) == 0:
		for _, client := range c.clients {
			add([]string{client}, nil)
		}
	case len(c.clients) == 0 && len(c.types) > 0:
		for _, typ := range c.types {
			add(nil, []string{typ})
		}
	case len(c.clients) == 0:
		add(nil, nil)
	default:
		for _, q := range c.pairs {
			if q.rank != "" {
				found = append(found, q)
			}
		}
	}
	slices.SortFunc(found, func(a, b *queue) int { return strings.Compare(a.rank, b.rank) })
	found = slices.Compact(found)
	found = slices.DeleteFunc(found, func(q *queue) bool { return priorityOfRank(q.rank) != priorityOfRank(found[0].rank) })
	return found[:min(n, len(found))]
}

// inTurn returns up to n clients that have jobs of a priority, by name, from the one after last on and round to it.
func (qs *queues) inTurn(c choice, priority, last string, n int) (clients []string) {
	p := ^binary.BigEndian.Uint32([]byte(priority))
	if len(c.clients) > 0 { // few, and by name
		names := slices.Clone(c.clients)
		slices.Sort(names)
		names = slices.Compact(names)
		at, found := slices.BinarySearch(names, last)
		if found {
			at++
		}
		for _, name := range append(names[at:len(names):len(names)], names[:at]...) {
			q := qs.best(qs.heads, qs.choice([]string{name}, c.types))
			if q != nil && priorityOfRank(q.rank) == priority && len(clients) < n {
				clients = append(clients, name)
			}
		}
		return clients
	}
	next := func(after string) (client string, ok bool) {
		if len(c.types) == 0 {
			return qs.samples.nextClient(p, after, "")
		}
		for _, typ := range c.types {
			if found, there := qs.samples.nextClient(p, after, typ); there && (!ok || found < client) {
				client, ok = found, true
			}
		}
		return client, ok
	}
	for client, ok := next(last); ok && len(clients) < n; client, ok = next(client) {
		clients = append(clients, client)
	}
	for client, ok := next(""); ok && client <= last && len(clients) < n; client, ok = next(client) {
		clients = append(clients, client)
	}
	return clients
}
