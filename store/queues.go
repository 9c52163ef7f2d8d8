package store

import (
	"cmp"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/store/lsm"
)

// queues finds queues by name and number, and the one that a claim takes from next.
type queues struct {
	byID   map[uint32]*queue
	byName map[queueName]*queue
	names  *queueSet // by client and type
	idle   idleQueues

	// The queues that have something to hand out, as the strategies look for them.
	heads   *queueIndex // by the rank of what is next in line
	tails   *queueIndex // by the rank of what became pending last
	samples *samplingTrees
}

type queueSet = btree.BTreeG[*queue]

func newQueueSet(less func(a, b *queue) bool) *queueSet {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 16})
}

func lessName(a, b *queue) bool { return a.client < b.client || a.client == b.client && a.typ < b.typ }

// lessRank puts the queue first whose head is next in line.
func lessRank(a, b *queue) bool { return a.rank < b.rank }

// lessTail puts the queue first that has the newest job of the highest priority.
func lessTail(a, b *queue) bool {
	if p, o := priorityOfRank(a.tailRank), priorityOfRank(b.tailRank); p != o {
		return p < o
	}
	return a.tailRank > b.tailRank
}

// queueIndex orders queues as a whole, by client and by type, so that a hundred thousand of them cost a claim no more than
// ten.
type queueIndex struct {
	less                  func(a, b *queue) bool
	all, byClient, byType *queueSet
	first                 queue // comes before all others in the order of less
}

func newQueueIndex(less func(a, b *queue) bool, first queue) *queueIndex {
	return &queueIndex{
		less: less, first: first, all: newQueueSet(less),
		byClient: newQueueSet(func(a, b *queue) bool { return a.client < b.client || a.client == b.client && less(a, b) }),
		byType:   newQueueSet(func(a, b *queue) bool { return a.typ < b.typ || a.typ == b.typ && less(a, b) }),
	}
}

func (x *queueIndex) insert(q *queue) {
	x.all.Set(q)
	x.byClient.Set(q)
	x.byType.Set(q)
}

func (x *queueIndex) remove(q *queue) {
	x.all.Delete(q)
	x.byClient.Delete(q)
	x.byType.Delete(q)
}

// ofClient and ofType return the first queue of a client or type, or nil.
func (x *queueIndex) ofClient(client string) (first *queue) {
	x.eachOfClient(client, func(q *queue) bool { first = q; return false })
	return first
}

func (x *queueIndex) ofType(typ string) (first *queue) {
	x.eachOfType(typ, func(q *queue) bool { first = q; return false })
	return first
}

// eachOfClient and eachOfType call visit with the queues of a client or type in their order, until it returns false.
func (x *queueIndex) eachOfClient(client string, visit func(q *queue) bool) {
	from := x.first
	from.client = client
	x.byClient.Ascend(&from, func(q *queue) bool { return q.client == client && visit(q) })
}

func (x *queueIndex) eachOfType(typ string, visit func(q *queue) bool) {
	from := x.first
	from.typ = typ
	x.byType.Ascend(&from, func(q *queue) bool { return q.typ == typ && visit(q) })
}

func newQueues() queues {
	return queues{
		byID: map[uint32]*queue{}, byName: map[queueName]*queue{}, names: newQueueSet(lessName), idle: newIdleQueues(), samples: newSamplingTrees(),
		heads: newQueueIndex(lessRank, queue{}),
		tails: newQueueIndex(lessTail, queue{queueOrder: queueOrder{tailRank: "\x00\x00\x00\x00\xff\xff"}}), // no class is 0xff
	}
}

func (qs *queues) add(q *queue) {
	qs.byID[q.id] = q
	qs.byName[q.queueName] = q
	qs.names.Set(q)
}

// queuePage says which queues to list: those after a name, in the order of client and type, of one client or, with "",
// of all.
type queuePage struct {
	client string
	after  queueName
	limit  int
}

// page returns up to limit of the queues of a page for which keep is true.
func (qs *queues) page(p queuePage, keep func(q *queue) bool) (page []*queue) {
	from := &queue{queueName: p.after}
	if from.client < p.client {
		from = &queue{queueName: queueName{client: p.client}}
	}
	qs.names.Ascend(from, func(q *queue) bool {
		if p.client != "" && q.client != p.client {
			return false
		}
		if q.queueName != p.after && keep(q) {
			page = append(page, q)
		}
		return len(page) < p.limit
	})
	return page
}

// place puts q where it belongs among the ready queues, after its head or its pending jobs may have changed.
func (qs *queues) place(q *queue, o *lsm.Overlay) {
	q.head = q.first(o)
	qs.rank(q)
}

// rank is place for a queue whose head is known.
func (qs *queues) rank(q *queue) {
	rank, tailRank := "", ""
	if q.head != "" && !q.paused {
		rank = readyRank(q.head)
		var tail string
		tail, q.tailKnown = q.guessTail()
		tailRank = readyRank(tail)
	}
	if rank != q.rank {
		if q.rank != "" {
			qs.heads.remove(q)
		}
		if q.rank = rank; rank != "" {
			qs.heads.insert(q)
		}
	}
	qs.rankTail(q, tailRank)
	qs.samples.set(q)
}

func (qs *queues) rankTail(q *queue, rank string) {
	if rank == q.tailRank {
		return
	}
	if q.tailRank != "" {
		qs.tails.remove(q)
	}
	if q.tailRank = rank; rank != "" {
		qs.tails.insert(q)
	}
}

// remove takes a queue without jobs out of everything that finds it.
func (qs *queues) remove(q *queue) {
	if q.idleAt != 0 {
		qs.idle.Delete(q)
	}
	delete(qs.byID, q.id)
	delete(qs.byName, q.queueName)
	qs.names.Delete(q)
}

// idleQueues orders the queues that have neither jobs nor settings by the time since when.
type idleQueues struct{ *queueSet }

func newIdleQueues() idleQueues {
	return idleQueues{btree.NewBTreeGOptions(func(a, b *queue) bool {
		return cmp.Or(cmp.Compare(a.idleAt, b.idleAt), cmp.Compare(a.id, b.id)) < 0
	}, btree.Options{NoLocks: true, Degree: 16})}
}

// oldest returns the queue that has been idle for the longest time, or nil.
func (x idleQueues) oldest() *queue {
	q, _ := x.Min()
	return q
}
