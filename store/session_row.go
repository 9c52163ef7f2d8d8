package store

import (
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// A session is the lasting identity of a runner or producer, in which its requests have numbers. It has one row, and
// one row for each slot that it has used, with the result of the slot's last request. So a session that makes many
// requests leaves no more rows than it had requests outstanding at the same time.

// session is the state of a session without its slots.
type session struct {
	seq     uint64
	at      int64
	runner  string
	usedAt  int64  // when it was opened, or last carried out a request
	timerAt int64  // of its timer row, at or before it is forgotten
	used    bool   // whether it has carried out a request
	idleAt  int64  // of its idle row, at or before usedAt
	bytes   uint64 // of its slots, as slotBytes counts them
	// written are the slots whose rows the next commit writes.
	written map[int]*slot
	dirty   bool // on the machine's list of unwritten rows
	gone    bool
}

// slot is the last request of a slot. Number 0: no request yet.
type slot struct {
	slotName
	session *session // set while the slot is on the machine's list of unwritten rows
	number  uint64
	done    *done
	bytes   uint64 // as slotBytes counts them
	dirty   bool   // on the machine's list of unwritten rows
}

// slotName identifies a slot in the cache.
type slotName struct {
	session uint64
	index   int
}

func (n *session) encode() []byte {
	e := make(lsm.Encoder, 0, 32)
	e.Int(n.at)
	e.Text(n.runner)
	e.Int(n.usedAt)
	e.Int(n.timerAt)
	e.Bool(n.used)
	e.Int(n.idleAt)
	e.Uint(n.bytes)
	return e
}

func decodeSession(seq uint64, value []byte) *session {
	d := lsm.Decoder(value)
	return &session{seq: seq, at: d.Int(), runner: d.Text(), usedAt: d.Int(), timerAt: d.Int(), used: d.Bool(), idleAt: d.Int(), bytes: d.Uint()}
}

func (l *slot) encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Uint(l.number)
	l.done.encode(&e)
	return e
}

func decodeSlot(value []byte) (number uint64, done *done) {
	d := lsm.Decoder(value)
	number = d.Uint()
	return number, decodeDone(&d)
}

func (n *session) flush(o *lsm.Overlay) {
	n.dirty = false
	if !n.gone {
		o.Set(seqKey(sessionTable, n.seq), n.encode())
	}
}

func (l *slot) flush(o *lsm.Overlay) {
	l.dirty = false
	if !l.session.gone {
		o.Set(slotKey(l.session.seq, l.index), l.encode())
		delete(l.session.written, l.index)
	}
	l.session = nil
}

// sessionBytes is about how many bytes the rows of a session have, without its slots and its runner's name.
const sessionBytes = 128

// slotBytes is about how many bytes the row of a slot has. It is rounded up, so that most requests do not change it.
func slotBytes(value []byte) uint64 { return uint64(len(value)+10+63) &^ 63 }

// taken is about how many bytes the rows of a session have.
func (n *session) taken() uint64 { return sessionBytes + uint64(len(n.runner)) + n.bytes }

// sessionOwner counts the sessions of a runner and the size of their rows.
type sessionOwner struct{ sessions, bytes uint64 }

func (o sessionOwner) encode() []byte {
	e := make(lsm.Encoder, 0, 12)
	e.Uint(o.sessions)
	e.Uint(o.bytes)
	return e
}

// readSessionOwner returns the counts of a runner's sessions.
func readSessionOwner(r lsm.Rows, runner string) (o sessionOwner) {
	if value := r.Get(sessionOwnerKey(runner)); value != nil {
		o = decodeSessionOwner(value)
	}
	return o
}

func decodeSessionOwner(value []byte) sessionOwner {
	d := lsm.Decoder(value)
	return sessionOwner{d.Uint(), d.Uint()}
}

// size is about how many bytes of memory a session takes with its place in the cache.
func (n *session) size() int { return 300 + len(n.runner) }

// expiresAt is when a session is forgotten, unless it carries out a request earlier.
func (n *session) expiresAt() int64 { return n.usedAt + job.KeyLifeMs }

func (n *session) id() job.ID { return job.NewID(n.at, n.seq, 0) }

// readSession returns the session of a seq, or nil.
func readSession(r lsm.Rows, seq uint64) *session {
	if value := r.Get(seqKey(sessionTable, seq)); value != nil {
		return decodeSession(seq, value)
	}
	return nil
}

// readSlot returns the stored state of a slot of a session.
func readSlot(r lsm.Rows, name slotName) *slot {
	l := &slot{slotName: name}
	if value := r.Get(slotKey(name.session, name.index)); value != nil {
		l.number, l.done = decodeSlot(value)
		l.bytes = slotBytes(value)
	}
	return l
}

// size is about how many bytes of memory a slot takes with its place in the cache.
func (l *slot) size() int {
	n := 200
	if d := l.done; d != nil {
		n += 200 + len(d.group.Meta) + len(d.group.Traceparent) + len(d.queueName.client) + len(d.queueName.typ) + len(d.existing)*24
		for i := range d.ended {
			n += 72 + len(d.ended[i].results)*16
		}
	}
	return n
}

// idleSessions finds the sessions that have been idle for the longest time, separately among those that have carried
// out no request yet and among all others.
type idleSessions struct{ unused, used lsm.Window }

// of returns the window that has a session's idle row.
func (x *idleSessions) of(n *session) *lsm.Window {
	if n.used {
		return &x.used
	}
	return &x.unused
}

func (n *session) document(numbers map[int]uint64) Session {
	doc := Session{ID: n.id(), Runner: n.runner, CreatedAt: n.at, UsedAt: n.usedAt, ExpiresAt: n.expiresAt()}
	for _, index := range slices.Sorted(maps.Keys(numbers)) {
		doc.Slots = append(doc.Slots, SlotState{index, numbers[index]})
	}
	return doc
}
