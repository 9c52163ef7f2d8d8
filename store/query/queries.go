package query

import (
	"sync"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Queries are the read operations of a store. Any goroutine may call them. They see the last commit, or a later one.
type Queries struct {
	live    *memory.Live
	db      *lsm.DB
	damaged sync.Map // of damagedRow to the *Error of its first read
}

// New returns the queries of a database and of the memory that belongs to it.
func New(l *memory.Live, db *lsm.DB) *Queries { return &Queries{live: l, db: db} }

// Journal returns the UUID of the journal that the store is made from, or "" if the store is new.
func (q *Queries) Journal() string {
	q.live.Mu.RLock()
	defer q.live.Mu.RUnlock()
	return q.live.Meta.Journal
}

// Applied returns the seq of the last command whose effects queries can see.
func (q *Queries) Applied() uint64 { return q.live.LastApplied.Load() }

// Durable returns the seq of the last command whose effects Pebble has on disk. A start no longer needs the journal up
// to it.
func (q *Queries) Durable() (seq uint64, err error) {
	defer lsm.Catch(&err)
	v := q.db.DurableView()
	defer v.Close()
	if value := v.Get(row.MetaKey); value != nil {
		seq = row.DecodeMeta(value).Cursor
	}
	return seq, nil
}

// Level returns the level that Apply decides by, as of the last commit.
func (q *Queries) Level() int { return q.live.LastTotals.Load().Level }

// At returns the time of the last command applied, unix ms.
func (q *Queries) At() int64 { q.live.Mu.RLock(); defer q.live.Mu.RUnlock(); return q.live.Meta.At }

// NextDue returns the earliest time, in unix ms, at which a tick will find a timer to look at; 0: never.
func (q *Queries) NextDue() int64 { return q.live.LastNextDue.Load() }

// IdleSince returns the time, in unix ms, since when the longest idle queue has been idle; 0: no queue is idle.
func (q *Queries) IdleSince() int64 { return q.live.LastIdleSince.Load() }

// Totals returns sums over all queues as of the last commit, without waiting.
func (q *Queries) Totals() document.Totals { return *q.live.LastTotals.Load() }

// DiskBytes returns the size of the store on disk; 0 once it is closed.
func (q *Queries) DiskBytes() uint64 { return q.db.DiskBytes() }

// Available reports whether a claim for these clients and types would find a job. Like Pending and Ready, it finds none
// while one command is applied for longer than Options.Patience.
func (q *Queries) Available(clients, types []string) (found bool) {
	q.Ready(clients, types, func(string, string, int64) bool { found = true; return false })
	return found
}

// Pending returns the number of jobs of a queue that a claim would find. claimable is false if a claim cannot find jobs
// in any case, because the queue is paused or the server hands out no jobs.
func (q *Queries) Pending(client, typ string) (n int64, claimable bool) {
	if !q.live.Mu.TryRLock() {
		return 0, true
	}
	defer q.live.Mu.RUnlock()
	if q.live.Meta.Stopped {
		return 0, false
	}
	found := q.live.AllQueues.ByName[row.QueueName{client, typ}]
	if found == nil {
		return 0, true
	}
	return found.Claimable(), !found.Paused
}

// Ready calls visit with the queues in which a claim for these clients and types would find jobs, and their number of
// jobs, until visit returns false. Apply waits for visit, so visit must not wait, and should stop after some queues.
func (q *Queries) Ready(clients, types []string, visit func(client, typ string, pending int64) bool) {
	if !q.live.Mu.TryRLock() {
		return
	}
	defer q.live.Mu.RUnlock()
	if !q.live.Meta.Stopped {
		q.live.AllQueues.Ready(clients, types, func(found *memory.Queue) bool { return visit(found.Client, found.Typ, found.Claimable()) })
	}
}

// QueuesOf returns what the queues of a client have: the unfinished jobs, queues and bytes of a quota, and memory. While one command
// is applied for longer than Options.Patience, ok is false.
func (q *Queries) QueuesOf(client string) (use job.Quota, memory int64, ok bool) {
	if !q.live.Mu.TryRLock() {
		return use, 0, false
	}
	defer q.live.Mu.RUnlock()
	if of := q.live.AllQueues.Clients[client]; of != nil {
		use, memory = of.Use(), of.Memory
	}
	return use, memory, true
}

// SweepsOf returns how many sweeps of an owner, and of all, are in progress. With the owner "", it has none.
func (q *Queries) SweepsOf(owner string) (own, all int) {
	q.live.Read()
	defer q.live.Mu.RUnlock()
	for _, w := range q.live.Running {
		if owner != "" && w.Owner == owner {
			own++
		}
	}
	return own, len(q.live.Running)
}

// ClientUse returns what a client has of each number of a quota.
func (q *Queries) ClientUse(client string) (use job.Quota, err error) {
	q.live.Read()
	if of := q.live.AllQueues.Clients[client]; of != nil {
		use = of.Use()
	}
	q.live.Mu.RUnlock()
	sweeps, _ := q.SweepsOf(client)
	use.Sweeps = int64(sweeps)
	if use.Sessions, err = q.SessionsOf(client); err != nil {
		return use, err
	}
	keys, err := q.KeysOf(client)
	use.IdempotencyKeys = int64(keys.Keys)
	return use, err
}

// QueueExists reports whether a queue exists, the priorities that count in its QueueBytes, and how much all queues
// take. While one command is applied for longer than Options.Patience, it reports that the queue does not exist, and
// how much all queues took at the last commit.
func (q *Queries) QueueExists(client, typ string) (exists bool, of row.Priorities, use document.QueueUse) {
	if !q.live.Mu.TryRLock() {
		return false, 0, q.Totals().QueueUse
	}
	defer q.live.Mu.RUnlock()
	if found := q.live.AllQueues.ByName[row.QueueName{client, typ}]; found != nil {
		exists, of = true, found.Priorities
	}
	return exists, of, q.live.QueueUse()
}
