package row

import (
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// A session is the lasting identity of a runner or producer, in which its requests have numbers. It has one row, and
// one row for each slot that it has used, with the result of the slot's last request. So a session that makes many
// requests leaves no more rows than it had requests outstanding at the same time.

// Session is the state of a session without its slots.
type Session struct {
	Seq     uint64
	At      int64
	Runner  string
	By      string // the actor that opened it; "": unknown
	Owner   string // for whom it counts: the owner of everything of the actor, or else the runner
	UsedAt  int64  // when it was opened, or last carried out a request
	TimerAt int64  // of its timer row, at or before it is forgotten
	Used    bool   // whether it has carried out a request
	IdleAt  int64  // of its idle row, at or before UsedAt
	Bytes   uint64 // of its slots, as SlotBytes counts them
	// written are the slots whose rows the next commit writes.
	Written map[int]*Slot
	Dirty   bool // on the machine's list of unwritten rows
	Gone    bool
}

// Slot is the last request of a slot. Number 0: no request yet.
type Slot struct {
	SlotName
	Session *Session // set while the slot is on the machine's list of unwritten rows
	Number  uint64
	Done    *Done
	Bytes   uint64 // as SlotBytes counts them
	Dirty   bool   // on the machine's list of unwritten rows
}

// SlotName identifies a slot in the cache.
type SlotName struct {
	Session uint64
	Index   int
}

func (n *Session) Encode() []byte {
	e := make(lsm.Encoder, 0, 32)
	e.Int(n.At)
	e.Text(n.Runner)
	e.Text(n.By)
	e.Text(n.Owner)
	e.Int(n.UsedAt)
	e.Int(n.TimerAt)
	e.Bool(n.Used)
	e.Int(n.IdleAt)
	e.Uint(n.Bytes)
	return e
}

func DecodeSession(seq uint64, value []byte) *Session {
	d := lsm.Decoder(value)
	return &Session{Seq: seq, At: d.Int(), Runner: d.Text(), By: d.Text(), Owner: d.Text(), UsedAt: d.Int(), TimerAt: d.Int(), Used: d.Bool(), IdleAt: d.Int(), Bytes: d.Uint()}
}

func (l *Slot) Encode() []byte {
	e := make(lsm.Encoder, 0, 64)
	e.Uint(l.Number)
	l.Done.Encode(&e)
	return e
}

func DecodeSlot(value []byte) (number uint64, done *Done) {
	d := lsm.Decoder(value)
	number = d.Uint()
	return number, DecodeDone(&d)
}

func (n *Session) Flush(o *lsm.Overlay) {
	n.Dirty = false
	if !n.Gone {
		o.Set(SeqKey(SessionTable, n.Seq), n.Encode())
	}
}

func (l *Slot) Flush(o *lsm.Overlay) {
	l.Dirty = false
	if !l.Session.Gone {
		o.Set(SlotKey(l.Session.Seq, l.Index), l.Encode())
		delete(l.Session.Written, l.Index)
	}
	l.Session = nil
}

// For reports whether an actor may use the session: an actor with a scope uses only those that it has opened. A key with the name of
// one that was revoked, but for other clients, has not opened its sessions.
func (n *Session) For(by *job.Actor) bool {
	return by.All() || n.By == by.Name && (by.Owner() == "" || n.Owner == by.Owner())
}

// SessionBytes is about how many bytes the rows of a session have, without its slots and its runner's name.
const sessionBytes = 128

// SlotBytes is about how many bytes the row of a slot has. It is rounded up, so that most requests do not change it.
func SlotBytes(value []byte) uint64 { return uint64(len(value)+10+63) &^ 63 }

// Taken is about how many bytes the rows of a session have.
func (n *Session) Taken() uint64 {
	return sessionBytes + uint64(len(n.Runner)+len(n.By)+len(n.Owner)) + n.Bytes
}

// SessionOwner counts the sessions of an owner and the size of their rows.
type SessionOwner struct{ Sessions, Bytes uint64 }

func (o SessionOwner) Encode() []byte {
	e := make(lsm.Encoder, 0, 12)
	e.Uint(o.Sessions)
	e.Uint(o.Bytes)
	return e
}

// ReadSessionOwner returns the counts of an owner's sessions.
func ReadSessionOwner(r lsm.Rows, owner string) (o SessionOwner) {
	if value := r.Get(SessionOwnerKey(owner)); value != nil {
		o = DecodeSessionOwner(value)
	}
	return o
}

func DecodeSessionOwner(value []byte) SessionOwner {
	d := lsm.Decoder(value)
	return SessionOwner{d.Uint(), d.Uint()}
}

// Size is about how many bytes of memory a session takes with its place in the cache.
func (n *Session) Size() int { return 300 + len(n.Runner) + len(n.Owner) }

// ExpiresAt is when a session is forgotten, unless it carries out a request earlier.
func (n *Session) ExpiresAt() int64 { return n.UsedAt + job.KeyLifeMs }

func (n *Session) Id() job.ID { return job.NewID(n.At, n.Seq, 0) }

// ReadSession returns the session of a seq, or nil.
func ReadSession(r lsm.Rows, seq uint64) *Session {
	if value := r.Get(SeqKey(SessionTable, seq)); value != nil {
		return DecodeSession(seq, value)
	}
	return nil
}

// ReadSlot returns the stored state of a slot of a session.
func ReadSlot(r lsm.Rows, name SlotName) *Slot {
	l := &Slot{SlotName: name}
	if value := r.Get(SlotKey(name.Session, name.Index)); value != nil {
		l.Number, l.Done = DecodeSlot(value)
		l.Bytes = SlotBytes(value)
	}
	return l
}

// Size is about how many bytes of memory a slot takes with its place in the cache.
func (l *Slot) Size() int {
	n := 200
	if d := l.Done; d != nil {
		n += 200 + d.Group.Texts() + len(d.QueueName.Client) + len(d.QueueName.Typ) + len(d.Existing)*24
		for i := range d.Ended {
			n += 72 + len(d.Ended[i].Results)*16
		}
	}
	return n
}

// IdleSessions finds the sessions that have been idle for the longest time, separately among those that have carried
// out no request yet and among all others.
type IdleSessions struct{ Unused, Used lsm.Window }

// Of returns the window that has a session's idle row.
func (x *IdleSessions) Of(n *Session) *lsm.Window {
	if n.Used {
		return &x.Used
	}
	return &x.Unused
}

func (n *Session) Document(numbers map[int]uint64) document.Session {
	doc := document.Session{ID: n.Id(), Runner: n.Runner, CreatedAt: n.At, UsedAt: n.UsedAt, ExpiresAt: n.ExpiresAt()}
	for _, index := range slices.Sorted(maps.Keys(numbers)) {
		doc.Slots = append(doc.Slots, document.SlotState{index, numbers[index]})
	}
	return doc
}
