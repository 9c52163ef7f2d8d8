package store

import (
	"cmp"
	"math/bits"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/store/lsm"
)

// queues finds queues by name and number, and those that have something to hand out.
type queues struct {
	byID     map[uint32]*queue
	byName   map[queueName]*queue
	byClient queueTree // by client and type
	byType   queueTree // by type and client
	idle     idleQueues
	bytes    int64        // about what all take of memory
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
	// queueBytes is about what a queue with a waiting job takes of memory, beside its name.
	queueBytes = 560
	// laneBytes is about what a lane takes of memory. A priority has two: jobs that came back have one of their own.
	laneBytes = 112
)

// QueueBytes returns about how much memory a queue takes that is not in use, while jobs of all of some priorities wait in it.
func QueueBytes(client, typ string, of Priorities) int64 {
	further := max(1, bits.OnesCount16(uint16(of))) - 1
	return int64(queueBytes + len(client) + len(typ) + 2*laneBytes*further)
}

// bytes is about how much memory the queue may take. Jobs that wait for their time, or have ended, may come to wait in line
// by no request that could be refused, so all priorities count that the queue has jobs of, or had since it was empty.
func (q *queue) bytes() int64 { return QueueBytes(q.client, q.typ, q.priorities) }

// setPriorities notes of which priorities a queue may have jobs.
func (qs *queues) setPriorities(q *queue, of Priorities) {
	qs.bytes -= q.bytes()
	q.priorities = of
	qs.bytes += q.bytes()
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

// place puts q where it belongs among the ready queues, after its spans may have changed, or whether it is paused.
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

// remove takes a queue without jobs out of everything that finds it.
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

// lastName comes after all names of clients and types.
const lastName = "\xff"

// nextType returns the first type after one of which jobs wait, and how many, of one client or, with "", of all.
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

// idleQueues orders the queues that have neither jobs nor settings by the time since when.
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
