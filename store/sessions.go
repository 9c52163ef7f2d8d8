package store

import (
	"cmp"
	"strings"

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

// writeSlot records a request in a slot of its session.
func (a *applying) writeSlot(n *session, index int, number uint64, d *done) {
	l := a.slot(slotName{n.seq, index})
	l.session, l.number, l.done = n, number, d
	if bytes := slotBytes(l.encode()); bytes != l.bytes {
		a.countSession(n, 0, bytes-l.bytes)
		n.bytes, l.bytes = n.bytes+bytes-l.bytes, bytes
		a.touch(&n.dirty, n)
	}
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
	runner := strings.Clone(cmd.Runner) // so that it does not keep the text of the command in memory
	crowded := readSessionOwner(&a.o, runner).sessions >= shareOfSessions(a.rules.sessions, a.meta.sessions)
	switch {
	case crowded && !a.replaceSession(runner), !crowded && a.meta.sessions >= a.rules.sessions && !a.makeRoomForSession():
		return &SessionOpened{Refusal: job.TooManySessions}
	}
	n := &session{seq: a.now.Seq, at: a.now.At, runner: runner, usedAt: a.now.At}
	a.sessions.Set(n.seq, n)
	a.countSession(n, 1, n.taken())
	a.retimeSession(n)
	a.putIdle(n)
	return &SessionOpened{Session: n.document(nil)}
}

// shareOfSessions is how many sessions one runner, or all sessions without a runner together, may have: as many as are
// still free, but at least a thousandth of the maximum. So no name takes more than half of the sessions that the other
// names leave.
func shareOfSessions(most, open uint64) uint64 {
	return max(1, most/1024, most-min(most, open))
}

// countSession adds to the number of sessions and bytes of a session's owner. Negative numbers wrap around.
func (a *applying) countSession(n *session, sessions, bytes uint64) {
	a.meta.sessions += sessions
	a.meta.sessionBytes += bytes
	o := readSessionOwner(&a.o, n.runner)
	o.sessions += sessions
	o.bytes += bytes
	if key := sessionOwnerKey(n.runner); o == (sessionOwner{}) {
		a.o.Delete(key)
	} else {
		a.o.Set(key, o.encode())
	}
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

// At the maximum number of open sessions, opening a session deletes one that seems unused. Otherwise processes that
// crash and restart, and open a session each time, could keep all other processes from opening theirs.
const (
	// unusedSessionMs is how long a session is kept that has not carried out a request yet.
	unusedSessionMs = 60_000
	// idleSessionMs is how long a session is kept after its last request.
	idleSessionMs = 3_600_000
	// idleLooks bounds how many sessions are checked that were used since their idle row was written. Each gets a new
	// row, so that the next attempt to open a session continues after them.
	idleLooks = 100
)

// makeRoomForSession deletes the oldest session that has carried out no request, or otherwise the session that was used
// least recently. It returns false if both were used too recently.
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

// replaceSession is makeRoomForSession for a runner that has its share of the sessions. It deletes one of the runner's
// sessions, if the first idleLooks sessions include one.
func (a *applying) replaceSession(runner string) bool {
	for _, of := range []struct {
		window *lsm.Window
		idleMs int64
	}{{&a.idle.unused, unusedSessionMs}, {&a.idle.used, idleSessionMs}} {
		first := of.window.First(&a.o)
		if first == "" {
			continue
		}
		var seqs []uint64
		a.o.Scan(first, of.window.To(), func(key string, _ []byte) bool {
			at, seq := splitIdleKey(key)
			if at+of.idleMs <= a.now.At {
				seqs = append(seqs, seq)
			}
			return at+of.idleMs <= a.now.At && len(seqs) < idleLooks
		})
		var oldest *session
		for _, seq := range seqs {
			if n := a.session(seq); n.runner == runner && n.usedAt+of.idleMs <= a.now.At &&
				(oldest == nil || cmp.Or(cmp.Compare(n.usedAt, oldest.usedAt), cmp.Compare(n.seq, oldest.seq)) < 0) {
				oldest = n
			}
		}
		if oldest != nil {
			a.closeSession(oldest)
			return true
		}
	}
	return false
}

// putIdle writes the row by which an idle session is found when there are too many. Requests after the first do not
// move it.
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

// useSession records that a session carries out a request.
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

// retimeSession sets the timer of a session. Requests do not move the timer, so it may be early; it is set again when
// it is due.
func (m *machine) retimeSession(n *session) {
	n.timerAt = n.expiresAt()
	m.setTimer(timerKey(n.timerAt, sessionTimer, n.seq, 0, 0))
	m.touch(&n.dirty, n)
}

// expireSession deletes a session whose timer is due, unless it has carried out a request since the timer was set. It
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

// deleteSession deletes the rows of a session except its timer, and returns the number of its slots. A slot first used
// since the last commit does not have a row yet, and will not get one.
func (a *applying) deleteSession(n *session) (slots int) {
	n.gone = true
	a.countSession(n, ^uint64(0), -n.taken())
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
