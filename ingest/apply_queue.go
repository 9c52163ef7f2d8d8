package ingest

import (
	"sync"

	"github.com/daybookq/daybook/journal"
)

// maxApplyQueue bounds the bytes of durable commands that wait for the applier. While the apply queue is full, the log does
// not deliver. The applier needs about a quarter of a second for this many bytes.
const maxApplyQueue = 64 << 20

// maxLag is the number of bytes in the apply queue above which creates are refused. Control commands follow creates in
// the same log, and must not wait long.
const maxLag = maxApplyQueue / 2

// applyQueue has durable commands between the log and the applier.
type applyQueue struct {
	mu     sync.Mutex // guards all fields below
	filled sync.Cond  // a group was added, or the apply queue was closed
	freed  sync.Cond  // bytes has become smaller, or the apply queue was closed
	groups [][]journal.Record
	bytes  int64 // of these groups, and of the groups that the applier has taken but not applied
	closed bool
}

func newApplyQueue() *applyQueue {
	q := &applyQueue{}
	q.filled.L, q.freed.L = &q.mu, &q.mu
	return q
}

func cost(group []journal.Record) (n int64) {
	for i := range group {
		n += 256 + int64(len(group[i].Fields)+len(group[i].Body))
	}
	return n
}

// put adds a durable group, and waits while the apply queue lacks room. A group that is larger than the bound is added when
// the apply queue is empty.
func (q *applyQueue) put(group []journal.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := cost(group)
	for q.bytes > 0 && q.bytes+n > maxApplyQueue && !q.closed {
		q.freed.Wait()
	}
	q.groups = append(q.groups, group)
	q.bytes += n
	q.filled.Signal()
}

// take waits for groups and returns all of them. It returns nil when the apply queue is closed and empty. The groups count
// as waiting until done is called.
func (q *applyQueue) take() [][]journal.Record {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.groups) == 0 && !q.closed {
		q.filled.Wait()
	}
	groups := q.groups
	q.groups = nil
	return groups
}

// done frees the room of an applied group.
func (q *applyQueue) done(group []journal.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= cost(group)
	q.freed.Signal()
}

// lag returns the number of bytes that the applier has not applied yet.
func (q *applyQueue) lag() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

// close ends the apply queue. put no longer waits; take returns the remaining groups, and then nil.
func (q *applyQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
	q.freed.Broadcast()
}

// drain answers all commands with an error until the apply queue is closed. It replaces an applier that has failed. The
// commands are in the log, and a restart applies them.
func (q *applyQueue) drain(err error) {
	for groups := q.take(); groups != nil; groups = q.take() {
		for _, group := range groups {
			for i := range group {
				answerApplied(&group[i], nil, err)
			}
			q.done(group)
		}
	}
}
