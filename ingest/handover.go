package ingest

import (
	"sync"

	"github.com/daybookq/daybook/journal"
)

// maxHandover bounds the bytes of durable commands that wait for the applier. While the hand-over is full, the log
// delivers nothing more. The applier needs about a quarter of a second for this many bytes.
const maxHandover = 64 << 20

// maxLag is the number of bytes in the hand-over from which creates are refused. Control commands come after creates in
// the same log, and must not wait long.
const maxLag = maxHandover / 2

// handover is the queue of durable commands between the log and the applier.
type handover struct {
	mu     sync.Mutex
	filled sync.Cond
	drawn  sync.Cond
	groups [][]journal.Record
	bytes  int64
	closed bool
}

func newHandover() *handover {
	h := &handover{}
	h.filled.L, h.drawn.L = &h.mu, &h.mu
	return h
}

func cost(group []journal.Record) (n int64) {
	for i := range group {
		n += 256 + int64(len(group[i].Fields)+len(group[i].Body))
	}
	return n
}

// put adds a durable group, and waits while there is no room. A group larger than the bound goes in alone.
func (h *handover) put(group []journal.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := cost(group)
	for h.bytes > 0 && h.bytes+n > maxHandover && !h.closed {
		h.drawn.Wait()
	}
	h.groups = append(h.groups, group)
	h.bytes += n
	h.filled.Signal()
}

// take waits for groups and returns all that are there; nil when closed and empty. They count as waiting until done.
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

// done reports that a group was applied.
func (h *handover) done(group []journal.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes -= cost(group)
	h.drawn.Signal()
}

// lag returns the bytes that wait for the applier or that it applies now.
func (h *handover) lag() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// close ends the hand-over: put no longer waits; take returns what is left, and then nil.
func (h *handover) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.filled.Broadcast()
	h.drawn.Broadcast()
}

// drain answers all commands with an error, until the hand-over is closed. It takes the place of an applier that has
// failed: the commands are in the log, and are applied after a restart.
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
