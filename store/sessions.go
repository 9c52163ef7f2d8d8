package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// slot is readSlot through Apply's cache.
func (m *machine) slot(name slotName) *slot {
	l := m.slots.Get(name)
	if l == nil {
		l = readSlot(&m.o, name)
		m.slots.Set(name, l)
	}
	return l
}

// writeSlot has a slot remember a request of its session.
func (a *applying) writeSlot(n *session, index int, number uint64, d *done) {
	l := a.slot(slotName{n.seq, index})
	l.session, l.number, l.done = n, number, d
	a.slots.Set(l.slotName, l)
	if n.written == nil {
		n.written = map[int]*slot{}
	}
	n.written[index] = l
	a.touch(&l.dirty, l)
}

// session returns the session of a seq, or nil.
func (m *machine) session(seq uint64) *session {
	n := m.sessions.Get(seq)
	if n == nil {
		if n = readSession(&m.o, seq); n != nil {
			m.sessions.Set(seq, n)
		}
	}
	return n
}

// sessionOf is readSessionOf through Apply's cache.
func (m *machine) sessionOf(id job.ID) *session { return rowOf(m.seqs(id), id, m.session) }

func (a *applying) openSession(cmd job.OpenSession) *SessionOpened {
	if a.meta.sessions >= a.rules.sessions && !a.makeRoomForSession() {
		return &SessionOpened{Refusal: job.TooManySessions}
	}
	n := &session{seq: a.now.Seq, at: a.now.At, runner: cmd.Runner, usedAt: a.now.At}
	a.sessions.Set(n.seq, n)
	a.meta.sessions++
	a.retimeSession(n)
	a.putIdle(n)
	return &SessionOpened{Session: n.document(nil)}
}

func (a *applying) endSession(cmd job.EndSession) *SessionEnded {
	n := a.sessionOf(cmd.Session)
	if n == nil {
		return &SessionEnded{Refusal: job.SessionNotFound}
	}
	a.closeSession(n)
	return &SessionEnded{}
}

// closeSession deletes a session before its timer is due.
func (a *applying) closeSession(n *session) {
	a.deleteTimer(timerKey(n.timerAt, sessionTimer, n.seq, 0, 0))
	a.deleteSession(n)
}

// When as many sessions are open as may be, opening one more forgets one that nobody seems to use: processes that crash
// and start again, and open a session each time, must not keep all others from opening theirs.
const (
	// unusedSessionMs is for how long a session is left alone that has not carried out a request yet.
	unusedSessionMs = 60_000
	// idleSessionMs is for how long one is left alone that has.
	idleSessionMs = 3_600_000
	// idleLooks bounds the sessions that are looked at and have been used since their idle row was written. They get a
	// new one, so that the next attempt to open a session continues after them.
	idleLooks = 100
)

// makeRoomForSession deletes the session that was opened first of those that carried out no request, or else the one
// that was used least recently. It reports false if both have been used too lately for that.
func (a *applying) makeRoomForSession() bool {
	if key := a.idle.unused.First(&a.o); key != "" {
		if at, seq := splitIdleKey(key); at+unusedSessionMs <= a.now.At {
			a.closeSession(a.session(seq))
			return true
		}
	}
	for range idleLooks {
		key := a.idle.used.First(&a.o)
		if key == "" {
			return false
		}
		at, seq := splitIdleKey(key)
		if at+idleSessionMs > a.now.At {
			return false
		}
		n := a.session(seq)
		if n.usedAt == at {
			a.closeSession(n)
			return true
		}
		a.deleteIdle(n)
		a.putIdle(n)
	}
	return false
}

// putIdle writes the row by which a session is found when there are too many. Requests after the first do not move it.
func (m *machine) putIdle(n *session) {
	n.idleAt = n.usedAt
	key := idleKey(n.used, n.idleAt, n.seq)
	m.o.Set(key, nil)
	m.idle.of(n).Insert(key)
	m.touch(&n.dirty, n)
}

func (m *machine) deleteIdle(n *session) {
	key := idleKey(n.used, n.idleAt, n.seq)
	m.o.Delete(key)
	m.idle.of(n).Remove(key)
}

// useSession notes that a session carries out a request.
func (a *applying) useSession(n *session) {
	if n.used && n.usedAt == a.now.At {
		return
	}
	n.usedAt = a.now.At
	if !n.used {
		a.deleteIdle(n)
		n.used = true
		a.putIdle(n)
	}
	a.touch(&n.dirty, n)
}

// retimeSession sets the timer of a session. Requests do not move it: it is early then, and set again when it is due.
func (m *machine) retimeSession(n *session) {
	n.timerAt = n.expiresAt()
	m.setTimer(timerKey(n.timerAt, sessionTimer, n.seq, 0, 0))
	m.touch(&n.dirty, n)
}

// expireSession forgets a session whose timer is due, unless it has carried out a request since the timer was set, and
// returns about how many rows that wrote.
func (a *applying) expireSession(key string, seq uint64) (rows int) {
	a.deleteTimer(key)
	n := a.session(seq)
	if n == nil {
		lsm.Contradict("find session", "session %d has a timer and no row", seq)
	}
	if n.expiresAt() > a.due {
		a.retimeSession(n)
		return tickSpanRows
	}
	return tickSpanRows + a.deleteSession(n)
}

// deleteSession deletes the rows of a session except its timer, and returns how many slots it had. Those that were used
// since the last commit have no row yet, and get none.
func (a *applying) deleteSession(n *session) (slots int) {
	n.gone = true
	a.meta.sessions--
	a.deleteIdle(n)
	a.o.Delete(seqKey(sessionTable, n.seq))
	prefix := seqKey(slotTable, n.seq)
	var keys []string
	a.o.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		delete(n.written, slotOfKey(key))
		return true
	})
	for _, key := range keys {
		a.o.Delete(key)
	}
	a.sessions.Delete(n.seq)
	return len(keys) + len(n.written)
}
