package store

import (
	"sync"

	"github.com/daybookq/daybook/store/lsm"
)

// Queries are the questions that any goroutine may ask of a store. They see the last commit, or a later one.
type Queries struct {
	*live
	db      *lsm.DB
	damaged sync.Map // of damagedRow to the *Error of reading it
}

// Journal returns the UUID of the journal that the store is made from; "" when it is new.
func (q *Queries) Journal() string { q.mu.RLock(); defer q.mu.RUnlock(); return q.meta.journal }

// Applied returns the seq of the last command whose effects queries can see.
func (q *Queries) Applied() uint64 { return q.applied.Load() }

// Durable returns the seq of the last command whose effects Pebble has on disk: the journal up to it is no longer
// needed for a start.
func (q *Queries) Durable() (seq uint64, err error) {
	defer lsm.Catch(&err)
	v := q.db.DurableView()
	defer v.Close()
	if value := v.Get(metaKey); value != nil {
		seq = decodeMeta(value).cursor
	}
	return seq, nil
}

// Level returns the level of what Apply decides.
func (q *Queries) Level() int { q.mu.RLock(); defer q.mu.RUnlock(); return q.meta.level }

// At returns the time of the last command applied, unix ms.
func (q *Queries) At() int64 { q.mu.RLock(); defer q.mu.RUnlock(); return q.meta.at }

// NextDue returns the time, unix ms, at which a tick will find something to look at; 0: never.
func (q *Queries) NextDue() int64 { return q.nextDue.Load() }

// IdleSince returns the time, unix ms, since when the queue has been idle that has been idle for the longest time; 0:
// no queue is idle.
func (q *Queries) IdleSince() int64 { return q.idleSince.Load() }

// Totals returns sums over all queues as of the last commit, without waiting.
func (q *Queries) Totals() Totals { return *q.totals.Load() }

// DiskBytes returns the size of the store on disk; 0 once it is closed.
func (q *Queries) DiskBytes() uint64 { return q.db.DiskBytes() }

// Available reports whether a claim for these clients and types would find a job.
func (q *Queries) Available(clients, types []string) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return !q.meta.stopped && q.queues.best(q.queues.heads, q.queues.choice(clients, types)) != nil
}

// QueueExists reports whether there is a queue, how many there are, and how many there ever were.
func (q *Queries) QueueExists(client, typ string) (exists bool, queues int, ever uint32) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.queues.byName[queueName{client, typ}] != nil, len(q.queues.byID), q.meta.nextQueue - 1
}
