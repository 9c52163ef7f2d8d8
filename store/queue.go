package store

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
)

// queue is the pair (client, type). All queues are in memory: what a claim needs to choose among them, and their counters.
type queue struct {
	windows     *windows // that its lanes share
	id          uint32
	client, typ string
	paused      bool
	createdAt   int64
	counts      job.Counts
	lanes       []*lane // in order of service
	head        string  // ready key of the span next in line; "" when none is pending
	rank        string  // under which the queue stands in the ready sets; "" when it does not
	// On the lists of that name in the Store.
	dirty, moved, readied bool
}

// lane is the waiting line of one priority and class of a queue.
type lane struct {
	priority uint32
	class    byte
	pending  int64 // jobs
	window   window
}

func compareLanes(a, b *lane) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.class, b.class))
}

// lane returns the lane of a priority and class; a new one is known to be empty.
func (q *queue) lane(priority uint32, class byte) *lane {
	want := &lane{priority: priority, class: class}
	at, found := slices.BinarySearchFunc(q.lanes, want, compareLanes)
	if !found {
		want.window = newWindow(q.windows, after(laneKey(q.id, priority, class)))
		q.lanes = slices.Insert(q.lanes, at, want)
	}
	return q.lanes[at]
}

func (q *queue) encode() []byte {
	e := make(encoder, 0, 96)
	e.text(q.client)
	e.text(q.typ)
	e.bool(q.paused)
	e.int(q.createdAt)
	encodeCounts(&e, &q.counts)
	for _, l := range q.lanes {
		if l.pending > 0 {
			e.uint(uint64(l.priority))
			e.uint(uint64(l.class))
			e.uint(uint64(l.pending))
		}
	}
	return e
}

func decodeQueue(id uint32, value []byte, windows *windows) *queue {
	d := decoder(value)
	q := &queue{windows: windows, id: id, client: d.text(), typ: d.text(), paused: d.bool(), createdAt: d.int()}
	q.counts = decodeCounts(&d)
	for len(d) > 0 {
		l := &lane{priority: uint32(d.uint()), class: byte(d.uint()), pending: int64(d.uint())}
		from := laneKey(id, l.priority, l.class)
		l.window = storedWindow(windows, from, after(from))
		q.lanes = append(q.lanes, l)
	}
	return q
}

type queueName struct{ client, typ string }

// queues finds queues by name and number, and the one whose head is next in line.
type queues struct {
	byID   []*queue // number n stands at n-1
	byName map[queueName]*queue
	names  *queueSet // by client and type

	// The queues that have something to hand out, ordered by the rank of their heads, as a whole, by client and by type, so that
	// a hundred thousand queues cost a claim no more than ten.
	ready    *queueSet
	byClient map[string]*queueSet
	byType   map[string]*queueSet
}

type queueSet = btree.BTreeG[*queue]

func newQueueSet(less func(a, b *queue) bool) *queueSet {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16})
}

func lessRank(a, b *queue) bool { return a.rank < b.rank }

func lessName(a, b *queue) bool { return a.client < b.client || a.client == b.client && a.typ < b.typ }

func newQueues() queues {
	return queues{
		byName:   map[queueName]*queue{},
		names:    newQueueSet(lessName),
		ready:    newQueueSet(lessRank),
		byClient: map[string]*queueSet{},
		byType:   map[string]*queueSet{},
	}
}

func (qs *queues) add(q *queue) {
	qs.byID = append(qs.byID, q)
	qs.byName[queueName{q.client, q.typ}] = q
	qs.names.Set(q)
	if qs.byClient[q.client] == nil {
		qs.byClient[q.client] = newQueueSet(lessRank)
	}
	if qs.byType[q.typ] == nil {
		qs.byType[q.typ] = newQueueSet(lessRank)
	}
}

// page returns up to limit queues after a pair in the order of client and type, of one client or, with "", of all.
func (qs *queues) page(client, afterClient, afterType string, limit int) (page []*queue) {
	from := &queue{client: afterClient, typ: afterType}
	if from.client < client {
		from = &queue{client: client}
	}
	qs.names.Ascend(from, func(q *queue) bool {
		if client != "" && q.client != client {
			return false
		}
		if q.client != afterClient || q.typ != afterType {
			page = append(page, q)
		}
		return len(page) < limit
	})
	return page
}

// place puts q where its head belongs among the ready queues.
func (qs *queues) place(q *queue, o *overlay) {
	q.head = ""
	for _, l := range q.lanes {
		if q.head = l.window.first(o); q.head != "" {
			break
		}
	}
	rank := ""
	if q.head != "" && !q.paused {
		rank = readyRank(q.head)
	}
	if rank == q.rank {
		return
	}
	sets := [...]*queueSet{qs.ready, qs.byClient[q.client], qs.byType[q.typ]}
	if q.rank != "" {
		for _, set := range sets {
			set.Delete(q)
		}
	}
	q.rank = rank
	if rank != "" {
		for _, set := range sets {
			set.Set(q)
		}
	}
}

// choice is the queues that a claim allows: those of some clients, of some types, or of both (no names: all).
type choice struct {
	clients, types []string
	pairs          []*queue // when both are named: those that exist
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

// next returns the ready queue of a choice whose head is next in line, or nil.
func (qs *queues) next(c choice) *queue {
	var best *queue
	better := func(q *queue) {
		if q != nil && q.rank != "" && (best == nil || q.rank < best.rank) {
			best = q
		}
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		q, _ := qs.ready.Min()
		return q
	case len(c.types) == 0:
		for _, client := range c.clients {
			if set := qs.byClient[client]; set != nil {
				q, _ := set.Min()
				better(q)
			}
		}
	case len(c.clients) == 0:
		for _, typ := range c.types {
			if set := qs.byType[typ]; set != nil {
				q, _ := set.Min()
				better(q)
			}
		}
	default:
		for _, q := range c.pairs {
			better(q)
		}
	}
	return best
}
