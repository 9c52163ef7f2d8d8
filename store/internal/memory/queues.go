package memory

import (
	"cmp"
	"math/bits"

	"github.com/tidwall/btree"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// queues finds queues by name and by number, and finds the queues with jobs to hand out.
type queues struct {
	ByID     map[uint32]*Queue
	ByName   map[row.QueueName]*Queue
	ByClient queueTree // by client and type
	ByType   queueTree // by type and client
	Idle     idleQueues
	Clients  map[string]*ClientQueues // of the clients that have queues
	Bytes    int64                    // about the memory that all queues take
	Windows  *lsm.Windows             // that lanes share
}

func NewQueues() queues {
	return queues{ByID: map[uint32]*Queue{}, ByName: map[row.QueueName]*Queue{}, Clients: map[string]*ClientQueues{}, ByClient: treeByClient(), ByType: treeByType(), Idle: newIdleQueues()}
}

// ClientQueues is what all queues of a client have.
type ClientQueues struct {
	Queues     int64
	Unfinished int64 // jobs that have not ended
	Bytes      int64 // of the payloads of all jobs that are kept
	Memory     int64 // about what the queues take
}

// Use returns the numbers that a quota bounds.
func (c *ClientQueues) Use() job.Quota {
	return job.Quota{Unfinished: c.Unfinished, Queues: c.Queues, Bytes: c.Bytes}
}

// join adds what a queue has to what its client has.
func (qs *queues) join(q *Queue) {
	of := qs.Clients[q.Client]
	if of == nil {
		of = &ClientQueues{}
		qs.Clients[q.Client] = of
	}
	of.Queues++
	of.Unfinished += q.Unfinished()
	of.Bytes += q.PayloadBytes
	of.Memory += q.Bytes()
	q.Of = of
}

// Add adds a new queue, which has no jobs.
func (qs *queues) Add(q *Queue) {
	qs.join(q)
	qs.ByID[q.Id] = q
	qs.ByName[q.QueueName] = q
	qs.Bytes += q.Bytes()
	qs.ByClient.Insert(q)
	qs.ByType.Insert(q)
}

const (
	// queueBytes is about the memory that a queue with a waiting job takes, without its name.
	queueBytes = 620
	// LaneBytes is about the memory that a lane takes. A priority has two lanes, because returned jobs have a separate
	// one.
	LaneBytes = 112
)

// QueueBytes returns about how much memory an unused queue takes while jobs of all these priorities wait in it.
func QueueBytes(client, typ string, of row.Priorities) int64 {
	further := max(1, bits.OnesCount16(uint16(of))) - 1
	return int64(queueBytes + len(client) + len(typ) + 2*LaneBytes*further)
}

// Bytes is about how much memory the queue may take. A deferred job, or one that has ended, may later wait in line
// without a request that the server could refuse. So the size counts all priorities of jobs that the queue has, or had
// since it was last empty.
func (q *Queue) Bytes() int64 { return QueueBytes(q.Client, q.Typ, q.Priorities) }

// SetPriorities records the priorities of the jobs that a queue may have.
func (qs *queues) SetPriorities(q *Queue, of row.Priorities) {
	before := q.Bytes()
	q.Priorities = of
	qs.Bytes += q.Bytes() - before
	q.Of.Memory += q.Bytes() - before
}

// QueuePage selects the queues to list: the queues after a name, in the order of client and type, of one client or,
// with "", of all clients.
type QueuePage struct {
	Client string
	After  row.QueueName
	Limit  int
}

// Page returns up to limit of the queues of a page for which keep returns true.
func (qs *queues) Page(p QueuePage, keep func(q *Queue) bool) (page []*Queue) {
	from := p.After
	if from.Client < p.Client {
		from = row.QueueName{Client: p.Client}
	}
	qs.ByClient.Ascend(&from, func(q *Queue) bool {
		if p.Client != "" && q.Client != p.Client {
			return false
		}
		if q.QueueName != p.After && keep(q) {
			page = append(page, q)
		}
		return len(page) < p.Limit
	})
	return page
}

// Place moves q to its right place among the ready queues, after its spans, or whether it is paused, may have changed.
func (qs *queues) Place(q *Queue, o *lsm.Overlay) {
	q.Settle(qs.Windows, o)
	q.Misplaced = false
	q.Head, q.Tail = nil, nil
	if !q.Paused {
		q.Head, q.Tail = q.first(), q.last()
	}
	qs.ByClient.Changed(q)
	qs.ByType.Changed(q)
}

// Remove removes a queue without jobs from all indexes.
func (qs *queues) Remove(q *Queue) {
	if q.IdleAt != 0 {
		qs.Idle.Delete(q)
	}
	q.Of.Memory -= q.Bytes()
	if q.Of.Queues--; q.Of.Queues == 0 {
		delete(qs.Clients, q.Client)
	}
	delete(qs.ByID, q.Id)
	delete(qs.ByName, q.QueueName)
	qs.Bytes -= q.Bytes()
	qs.ByClient.Remove(q)
	qs.ByType.Remove(q)
	for l := q.Lanes; l != nil; l = l.Next {
		l.Drop()
	}
}

// LastName sorts after all names of clients and types.
const LastName = "\xff"

// NextType returns the first type after a type that has waiting jobs, and their number, of one client or, with "", of
// all clients.
func (qs *queues) NextType(client, after string) (typ string, jobs int64) {
	if client == "" {
		q := qs.ByType.After(&row.QueueName{LastName, after}, lowest+1)
		if q == nil {
			return "", 0
		}
		all := qs.ByType.Of(q.Typ)
		return q.Typ, all.waiting
	}
	if q := qs.ByClient.After(&row.QueueName{client, after}, lowest+1); q != nil && q.Client == client {
		own := q.Ready()
		return q.Typ, own.waiting
	}
	return "", 0
}

// idleQueues orders the queues without jobs and settings by how long they have been so.
type idleQueues struct{ *btree.BTreeG[*Queue] }

func newIdleQueues() idleQueues {
	return idleQueues{btree.NewBTreeGOptions(func(a, b *Queue) bool {
		return cmp.Or(cmp.Compare(a.IdleAt, b.IdleAt), cmp.Compare(a.Id, b.Id)) < 0
	}, btree.Options{NoLocks: true, Degree: 16})}
}

// Oldest returns the queue that has been idle for the longest time, or nil.
func (x idleQueues) Oldest() *Queue {
	q, _ := x.Min()
	return q
}
