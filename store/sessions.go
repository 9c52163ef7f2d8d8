package store

import (
	"maps"
	"slices"

	"github.com/daybookq/daybook/job"
)

// A session is the lasting identity of a runner or producer, in which its requests have numbers. It is one row, and one for each slot that
// it has used: what the last request of the slot did. So however many requests a session makes, it leaves a row for each that it ever had
// under way at the same time, and no more.

// session is what is known of a session beside its slots.
type session struct {
	seq     uint64
	at      int64
	runner  string
	usedAt  int64 // when it was opened, or carried out a request last
	timerAt int64 // of its timer row, at or before it is forgotten
	used    bool  // whether it has carried out a request
	idleAt  int64 // of its idle row, at or before usedAt
	// written are the slots whose rows the next commit writes.
	written map[int]*slot
	dirty   bool // on the Store's list of that name
	gone    bool
}

// slot is the last request of a slot. Number 0: there was none.
type slot struct {
	slotName
	session *session // set when the slot is on the Store's list dirty
	number  uint64
	done    *done
	dirty   bool // on the Store's list of that name
}

// slotName is what a slot is cached by.
type slotName struct {
	session uint64
	index   int
}

func (n *session) encode() []byte {
	e := make(encoder, 0, 32)
	e.int(n.at)
	e.text(n.runner)
	e.int(n.usedAt)
	e.int(n.timerAt)
	e.bool(n.used)
	e.int(n.idleAt)
	return e
}

func decodeSession(seq uint64, value []byte) *session {
	d := decoder(value)
	return &session{seq: seq, at: d.int(), runner: d.text(), usedAt: d.int(), timerAt: d.int(), used: d.bool(), idleAt: d.int()}
}

func (l *slot) encode() []byte {
	e := make(encoder, 0, 64)
	e.uint(l.number)
	l.done.encode(&e)
	return e
}

func decodeSlot(value []byte) (number uint64, done *done) {
	d := decoder(value)
	number = d.uint()
	return number, decodeDone(&d)
}

func (n *session) flush(o *overlay) {
	n.dirty = false
	if !n.gone {
		o.set(seqKey(sessionTable, n.seq), n.encode())
	}
}

func (l *slot) flush(o *overlay) {
	l.dirty = false
	if !l.session.gone {
		o.set(slotKey(l.session.seq, l.index), l.encode())
		delete(l.session.written, l.index)
	}
	l.session = nil
}

// expiresAt is when a session is forgotten unless it carries out a request before.
func (n *session) expiresAt() int64 { return n.usedAt + job.KeyLifeMs }

func (n *session) id() job.ID { return job.NewID(n.at, n.seq, 0) }

// readSession returns the session of a seq, or nil.
func readSession(r rows, seq uint64) *session {
	if value := r.get(seqKey(sessionTable, seq)); value != nil {
		return decodeSession(seq, value)
	}
	return nil
}

// readSessionOf returns the session with an id, or nil.
func (s *Store) readSessionOf(r rows, id job.ID) *session {
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if n := readSession(r, seq); n != nil && n.id() == id {
			return n
		}
	}
	return nil
}

// readSlot returns a slot of a session as its row says.
func readSlot(r rows, name slotName) *slot {
	l := &slot{slotName: name}
	if value := r.get(slotKey(name.session, name.index)); value != nil {
		l.number, l.done = decodeSlot(value)
	}
	return l
}

// slot is readSlot through Apply's cache.
func (s *Store) slot(name slotName) *slot {
	l, moved := s.slots.find(name)
	if l == nil {
		l = readSlot(&s.o, name)
		s.slots.set(name, l)
		moved = true
	}
	if moved {
		s.slotBytes += l.size()
	}
	return l
}

// writeSlot has a slot remember a request of its session.
func (s *Store) writeSlot(n *session, index int, number uint64, d *done) {
	l := s.slot(slotName{n.seq, index})
	s.slotBytes -= l.size()
	l.session, l.number, l.done = n, number, d
	s.slotBytes += l.size()
	if n.written == nil {
		n.written = map[int]*slot{}
	}
	n.written[index] = l
	s.touch(&l.dirty, l)
}

// size is about how many bytes of memory a slot takes with its place in the cache.
func (l *slot) size() int {
	n := 200
	if d := l.done; d != nil {
		n += 200 + len(d.group.Meta) + len(d.group.Traceparent) + len(d.queue.client) + len(d.queue.typ) + len(d.existing)*24
		for i := range d.ended {
			n += 72 + len(d.ended[i].results)*16
		}
	}
	return n
}

// trimSlots ends the generation of cached slots when the younger one takes half of the bytes that both may take.
func (s *Store) trimSlots() {
	if s.slotBytes > s.bounds.cachedSlotBytes/2 {
		s.slots.age()
		s.slotBytes = 0
	}
}

// session returns the session of a seq, or nil.
func (s *Store) session(seq uint64) *session {
	n := s.sessions.get(seq)
	if n == nil {
		if n = readSession(&s.o, seq); n != nil {
			s.sessions.set(seq, n)
		}
	}
	return n
}

// sessionOf is readSessionOf through Apply's cache.
func (s *Store) sessionOf(id job.ID) *session {
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if n := s.session(seq); n != nil && n.id() == id {
			return n
		}
	}
	return nil
}

func (s *Store) openSession(cmd job.OpenSession) *SessionOpened {
	if s.meta.sessions >= s.rules.sessions && !s.makeRoomForSession() {
		return &SessionOpened{Refusal: job.TooManySessions}
	}
	n := &session{seq: s.now.Seq, at: s.now.At, runner: cmd.Runner, usedAt: s.now.At}
	s.sessions.set(n.seq, n)
	s.meta.sessions++
	s.retimeSession(n)
	s.putIdle(n)
	return &SessionOpened{Session: n.document(nil)}
}

func (s *Store) endSession(cmd job.EndSession) *SessionEnded {
	n := s.sessionOf(cmd.Session)
	if n == nil {
		return &SessionEnded{Refusal: job.SessionNotFound}
	}
	s.dropSession(n)
	return &SessionEnded{}
}

// dropSession forgets a session before its timer is due.
func (s *Store) dropSession(n *session) {
	s.dropTimer(timerKey(n.timerAt, sessionTimer, n.seq, 0, 0))
	s.forgetSession(n)
}

// When as many sessions are open as may be, opening one more forgets one that nobody seems to use: processes that crash and start again, and
// open a session each time, must not keep all others from opening theirs.
const (
	// unusedSessionMs is for how long a session is left alone that has not carried out a request yet.
	unusedSessionMs = 60_000
	// idleSessionMs is for how long one is left alone that has.
	idleSessionMs = 3_600_000
	// idleLooks bounds the sessions that are looked at and have been used since their idle row was written. They get a new one, so that the
	// next attempt to open a session goes on after them.
	idleLooks = 100
)

// makeRoomForSession forgets the session that was opened first of those that carried out no request, or else the one that was used least
// recently. It reports false if both have been used too lately for that.
func (s *Store) makeRoomForSession() bool {
	if key := s.unusedSessions.first(&s.o); key != "" {
		if at, seq := splitIdleKey(key); at+unusedSessionMs <= s.now.At {
			s.dropSession(s.session(seq))
			return true
		}
	}
	for range idleLooks {
		key := s.usedSessions.first(&s.o)
		if key == "" {
			return false
		}
		at, seq := splitIdleKey(key)
		if at+idleSessionMs > s.now.At {
			return false
		}
		n := s.session(seq)
		if n.usedAt == at {
			s.dropSession(n)
			return true
		}
		s.dropIdle(n)
		s.putIdle(n)
	}
	return false
}

// putIdle writes the row by which a session is found when there are too many. Requests after the first do not move it.
func (s *Store) putIdle(n *session) {
	n.idleAt = n.usedAt
	key := idleKey(n.used, n.idleAt, n.seq)
	s.o.set(key, nil)
	s.idleSessions(n.used).insert(key)
	s.touch(&n.dirty, n)
}

func (s *Store) dropIdle(n *session) {
	key := idleKey(n.used, n.idleAt, n.seq)
	s.o.del(key)
	s.idleSessions(n.used).remove(key)
}

func (s *Store) idleSessions(used bool) *window {
	if used {
		return &s.usedSessions
	}
	return &s.unusedSessions
}

// useSession notes that a session carries out a request.
func (s *Store) useSession(n *session) {
	if n.used && n.usedAt == s.now.At {
		return
	}
	n.usedAt = s.now.At
	if !n.used {
		s.dropIdle(n)
		n.used = true
		s.putIdle(n)
	}
	s.touch(&n.dirty, n)
}

// retimeSession sets the timer of a session. Requests do not move it: it is early then, and set again when it is due.
func (s *Store) retimeSession(n *session) {
	n.timerAt = n.expiresAt()
	s.setTimer(timerKey(n.timerAt, sessionTimer, n.seq, 0, 0))
	s.touch(&n.dirty, n)
}

// expireSession forgets a session whose timer is due, unless it has carried out a request since the timer was set, and returns about how
// many rows that wrote.
func (s *Store) expireSession(key string, seq uint64) (rows int) {
	s.dropTimer(key)
	n := s.session(seq)
	if n == nil {
		contradict("find session", "session %d has a timer and no row", seq)
	}
	if n.expiresAt() > s.due {
		s.retimeSession(n)
		return tickSpanRows
	}
	return tickSpanRows + s.forgetSession(n)
}

// forgetSession deletes the rows of a session but its timer, and returns how many slots it had. Those that were used since the last commit
// have no row yet, and get none.
func (s *Store) forgetSession(n *session) (slots int) {
	n.gone = true
	s.meta.sessions--
	s.dropIdle(n)
	s.o.del(seqKey(sessionTable, n.seq))
	prefix := seqKey(slotTable, n.seq)
	var keys []string
	s.o.scan(prefix, after(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		delete(n.written, slotOfKey(key))
		return true
	})
	for _, key := range keys {
		s.o.del(key)
	}
	s.sessions.del(n.seq)
	return len(keys) + len(n.written)
}

// Session is the document of a session. Times are unix ms.
type Session struct {
	ID        job.ID
	Runner    string // "" when none was named
	CreatedAt int64
	UsedAt    int64 // when it was opened, or carried out a request last
	ExpiresAt int64 // when it is forgotten unless it carries out a request before
	Slots     []SlotState
}

// SlotState is the number of the last request of a slot.
type SlotState struct {
	Slot   int
	Number uint64
}

func (n *session) document(numbers map[int]uint64) Session {
	doc := Session{ID: n.id(), Runner: n.runner, CreatedAt: n.at, UsedAt: n.usedAt, ExpiresAt: n.expiresAt()}
	for _, index := range slices.Sorted(maps.Keys(numbers)) {
		doc.Slots = append(doc.Slots, SlotState{index, numbers[index]})
	}
	return doc
}

// SessionDocument returns the document of a session; job.SessionNotFound when there is none.
func (s *Store) SessionDocument(id job.ID) (_ Session, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	n := s.readSessionOf(v, id)
	if n == nil {
		return Session{}, job.SessionNotFound
	}
	numbers := map[int]uint64{}
	prefix := seqKey(slotTable, n.seq)
	v.scan(prefix, after(prefix), func(key string, value []byte) bool {
		numbers[slotOfKey(key)], _ = decodeSlot(value)
		return true
	})
	return n.document(numbers), nil
}
