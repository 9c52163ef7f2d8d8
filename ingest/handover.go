package ingest

import (
	"sync"

	"github.com/daybookq/daybook/journal"
)

// maxHandover bounds the bytes of durable commands that wait for the applier. While the hand-over is full, the log does
// not deliver. The applier needs about a quarter of a second for this many bytes.
const maxHandover = 64 << 20

// maxLag is the number of bytes in the hand-over above which creates are refused. Control commands follow creates in
// the same log, and must not wait long.
const maxLag = maxHandover / 2

// handover is the queue of durable commands between the log and the applier.
type handover struct {
	mu     sync.Mutex // guards all fields below
	filled sync.Cond  // a group was added, or the hand-over was closed
	freed  sync.Cond  // bytes has become smaller, or the hand-over was closed
	groups [][]journal.Record
	bytes  int64 // of these groups, and of the groups that the applier has taken but not applied
	closed bool
}

func newHandover() *handover {
	h := &handover{}
	h.filled.L, h.freed.L = &h.mu, &h.mu
	return h
}

func cost(group []journal.Record) (n int64) {
	for i := range group {
		n += 256 + int64(len(group[i].Fields)+len(group[i].Body))
	}
	return n
}

// put adds a durable group, and waits while the hand-over lacks room. A group that is larger than the bound is added when
// the hand-over is empty.
func (h *handover) put(group []journal.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := cost(group)
	for h.bytes > 0 && h.bytes+n > maxHandover && !h.closed {
		h.freed.Wait()
	}
	h.groups = append(h.groups, group)
	h.bytes += n
	h.filled.Signal()
}

// take waits for groups and returns all of them. It returns nil when the hand-over is closed and empty. The groups count
// as waiting until done is called.
func (h *handover) take() [][]journal.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.groups) == 0 && !h.closed {
		h.filled.Wait()
	}
	groups := h.groups
	h.groups = nil
	return groups
}

// done frees the room of an applied group.
func (h *handover) done(group []journal.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes -= cost(group)
	h.freed.Signal()
}

// lag returns the number of bytes that the applier has not applied yet.
func (h *handover) lag() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// close ends the hand-over. put no longer waits; take returns the remaining groups, and then nil.
func (h *handover) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.filled.Broadcast()
	h.freed.Broadcast()
}

// drain answers all commands with an error until the hand-over is closed. It replaces an applier that has failed. The
// commands are in the log, and a restart applies them.
func (h *handover) drain(err error) {
	for groups := h.take(); groups != nil; groups = h.take() {
		for _, group := range groups {
			for i := range group {
				answerApplied(&group[i], nil, err)
			}
			h.done(group)
		}
	}
}
