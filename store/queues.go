package store

import (
	"cmp"
	"math/bits"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/store/lsm"
)

// queues finds queues by name and by number, and finds the queues with jobs to hand out.
type queues struct {
	byID     map[uint32]*queue
	byName   map[queueName]*queue
	byClient queueTree // by client and type
	byType   queueTree // by type and client
	idle     idleQueues
	bytes    int64        // about the memory that all queues take
	windows  *lsm.Windows // that lanes share
}

func newQueues() queues {
	return queues{byID: map[uint32]*queue{}, byName: map[queueName]*queue{}, byClient: treeByClient(), byType: treeByType(), idle: newIdleQueues()}
}

func (qs *queues) add(q *queue) {
	qs.byID[q.id] = q
	qs.byName[q.queueName] = q
	qs.bytes += q.bytes()
	qs.byClient.insert(q)
	qs.byType.insert(q)
}

const (
	// queueBytes is about the memory that a queue with a waiting job takes, without its name.
	queueBytes = 560
	// laneBytes is about the memory that a lane takes. A priority has two lanes, because returned jobs have a separate
	// one.
	laneBytes = 112
)

// QueueBytes returns about how much memory an unused queue takes while jobs of all these priorities wait in it.
func QueueBytes(client, typ string, of Priorities) int64 {
	further := max(1, bits.OnesCount16(uint16(of))) - 1
	return int64(queueBytes + len(client) + len(typ) + 2*laneBytes*further)
}

// bytes is about how much memory the queue may take. Jobs that wait for their time, or have ended, may later wait in
// line without a request that the server could refuse. So all priorities of jobs that the queue has, or had since it
// was last empty, count.
func (q *queue) bytes() int64 { return QueueBytes(q.client, q.typ, q.priorities) }

// setPriorities records the priorities of the jobs that a queue may have.
func (qs *queues) setPriorities(q *queue, of Priorities) {
	qs.bytes -= q.bytes()
	q.priorities = of
	qs.bytes += q.bytes()
}

// queuePage selects the queues to list: the queues after a name, in the order of client and type, of one client or,
// with "", of all clients.
type queuePage struct {
	client string
	after  queueName
	limit  int
}

// page returns up to limit of the queues of a page for which keep returns true.
func (qs *queues) page(p queuePage, keep func(q *queue) bool) (page []*queue) {
	from := p.after
	if from.client < p.client {
		from = queueName{client: p.client}
	}
	qs.byClient.ascend(&from, func(q *queue) bool {
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

// place moves q to its right place among the ready queues, after its spans, or whether it is paused, may have changed.
func (qs *queues) place(q *queue, o *lsm.Overlay) {
	q.settle(qs.windows, o)
	q.misplaced = false
	q.head, q.tail = nil, nil
	if !q.paused {
		q.head, q.tail = q.first(), q.last()
	}
	qs.byClient.changed(q)
	qs.byType.changed(q)
}

// remove removes a queue without jobs from all indexes.
func (qs *queues) remove(q *queue) {
	if q.idleAt != 0 {
		qs.idle.Delete(q)
	}
	delete(qs.byID, q.id)
	delete(qs.byName, q.queueName)
	qs.bytes -= q.bytes()
	qs.byClient.remove(q)
	qs.byType.remove(q)
	for l := q.lanes; l != nil; l = l.next {
		l.drop()
	}
}

// lastName sorts after all names of clients and types.
const lastName = "\xff"

// nextType returns the first type after a type that has waiting jobs, and their number, of one client or, with "", of
// all clients.
func (qs *queues) nextType(client, after string) (typ string, jobs int64) {
	if client == "" {
		q := qs.byType.after(&queueName{lastName, after}, lowest+1)
		if q == nil {
			return "", 0
		}
		all := qs.byType.of(q.typ)
		return q.typ, all.waiting
	}
	if q := qs.byClient.after(&queueName{client, after}, lowest+1); q != nil && q.client == client {
		own := q.ready()
		return q.typ, own.waiting
	}
	return "", 0
}

// idleQueues orders the queues without jobs and settings by how long they have been so.
type idleQueues struct{ *btree.BTreeG[*queue] }

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
