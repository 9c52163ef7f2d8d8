package machine

import (
	"cmp"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Slot is ReadSlot through Apply's cache.
func (m *Machine) Slot(name row.SlotName) *row.Slot {
	l := m.Slots.Get(name)
	if l == nil {
		l = row.ReadSlot(&m.O, name)
		m.Slots.Set(name, l)
	}
	return l
}

// writeSlot records a request in a slot of its session.
func (a *Applying) writeSlot(n *row.Session, index int, number uint64, d *row.Done) {
	l := a.Slot(row.SlotName{n.Seq, index})
	l.Session, l.Number, l.Done = n, number, d
	if bytes := row.SlotBytes(l.Encode()); bytes != l.Bytes {
		a.countSession(n, 0, bytes-l.Bytes)
		n.Bytes, l.Bytes = n.Bytes+bytes-l.Bytes, bytes
		a.Touch(&n.Dirty, n)
	}
	a.Slots.Set(l.SlotName, l)
	if n.Written == nil {
		n.Written = map[int]*row.Slot{}
	}
	n.Written[index] = l
	a.Touch(&l.Dirty, l)
}

// session returns the session of a seq, or nil.
func (m *Machine) session(seq uint64) *row.Session {
	n := m.Sessions.Get(seq)
	if n == nil {
		if n = row.ReadSession(&m.O, seq); n != nil {
			m.Sessions.Set(seq, n)
		}
	}
	return n
}

// SessionOf is ReadSessionOf through Apply's cache.
func (m *Machine) SessionOf(id job.ID) *row.Session { return memory.RowOf(m.Seqs(id), id, m.session) }

func (a *Applying) openSession(cmd job.OpenSession) *applied.SessionOpened {
	runner := strings.Clone(cmd.Runner) // so that it does not keep the text of the command in memory
	owner := cmp.Or(strings.Clone(a.By.Owner()), runner)
	crowded := row.ReadSessionOwner(&a.O, owner).Sessions >= shareOfSessions(a.Rules.Sessions, a.Meta.Sessions)
	switch {
	case crowded && !a.replaceSession(owner), !crowded && a.Meta.Sessions >= a.Rules.Sessions && !a.makeRoomForSession():
		return &applied.SessionOpened{Refusal: job.TooManySessions}
	}
	n := &row.Session{Seq: a.Now.Seq, At: a.Now.At, Runner: runner, By: strings.Clone(a.By.Name), Owner: owner, UsedAt: a.Now.At}
	a.Sessions.Set(n.Seq, n)
	a.countSession(n, 1, n.Taken())
	a.retimeSession(n)
	a.PutIdle(n)
	return &applied.SessionOpened{Session: n.Document(nil)}
}

// shareOfSessions is how many sessions one owner, or all sessions without one together, may have: as many as are
// still free, but at least a thousandth of the maximum. So no name takes more than half of the sessions that the other
// names leave.
func shareOfSessions(most, open uint64) uint64 {
	return max(1, most/1024, most-min(most, open))
}

// countSession adds to the number of sessions and bytes of a session's owner. Negative numbers wrap around.
func (a *Applying) countSession(n *row.Session, sessions, bytes uint64) {
	a.Meta.Sessions += sessions
	a.Meta.SessionBytes += bytes
	o := row.ReadSessionOwner(&a.O, n.Owner)
	o.Sessions += sessions
	o.Bytes += bytes
	if key := row.SessionOwnerKey(n.Owner); o == (row.SessionOwner{}) {
		a.O.Delete(key)
	} else {
		a.O.Set(key, o.Encode())
	}
}

func (a *Applying) endSession(cmd job.EndSession) *applied.SessionEnded {
	n := a.sessionInScope(cmd.Session)
	if n == nil {
		return &applied.SessionEnded{Refusal: job.SessionNotFound}
	}
	a.closeSession(n)
	return &applied.SessionEnded{}
}

// closeSession deletes a session before its timer is due.
func (a *Applying) closeSession(n *row.Session) {
	a.DeleteTimer(row.TimerKey(n.TimerAt, row.SessionTimer, n.Seq, 0, 0))
	a.deleteSession(n)
}

// At the maximum number of open sessions, opening a session deletes one that seems unused. Otherwise processes that
// crash and restart, and open a session each time, could keep all other processes from opening theirs.
const (
	// IdleLooks bounds how many sessions are checked that were used since their idle row was written. Each gets a new
	// row, so that the next attempt to open a session continues after them.
	IdleLooks = 100
)

// makeRoomForSession deletes the oldest session that has carried out no request, or otherwise the session that was used
// least recently. It returns false if both were used too recently.
func (a *Applying) makeRoomForSession() bool {
	if key := a.idle.Unused.First(&a.O); key != "" {
		if at, seq := row.SplitIdleKey(key); at+job.UnusedSessionMs <= a.Now.At {
			a.closeSession(a.session(seq))
			return true
		}
	}
	for range IdleLooks {
		key := a.idle.Used.First(&a.O)
		if key == "" {
			return false
		}
		at, seq := row.SplitIdleKey(key)
		if at+job.IdleSessionMs > a.Now.At {
			return false
		}
		n := a.session(seq)
		if n.UsedAt == at {
			a.closeSession(n)
			return true
		}
		a.DeleteIdle(n)
		a.PutIdle(n)
	}
	return false
}

// replaceSession is makeRoomForSession for an owner that has its share of the sessions. It deletes one of the owner's
// sessions, if the first IdleLooks sessions include one.
func (a *Applying) replaceSession(owner string) bool {
	for _, of := range []struct {
		window *lsm.Window
		idleMs int64
	}{{&a.idle.Unused, job.UnusedSessionMs}, {&a.idle.Used, job.IdleSessionMs}} {
		first := of.window.First(&a.O)
		if first == "" {
			continue
		}
		var seqs []uint64
		a.O.Scan(first, of.window.To(), func(key string, _ []byte) bool {
			at, seq := row.SplitIdleKey(key)
			if at+of.idleMs <= a.Now.At {
				seqs = append(seqs, seq)
			}
			return at+of.idleMs <= a.Now.At && len(seqs) < IdleLooks
		})
		var oldest *row.Session
		for _, seq := range seqs {
			if n := a.session(seq); n.Owner == owner && n.UsedAt+of.idleMs <= a.Now.At &&
				(oldest == nil || cmp.Or(cmp.Compare(n.UsedAt, oldest.UsedAt), cmp.Compare(n.Seq, oldest.Seq)) < 0) {
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

// PutIdle writes the row by which an idle session is found when there are too many. Requests after the first do not
// move it.
func (m *Machine) PutIdle(n *row.Session) {
	n.IdleAt = n.UsedAt
	key := row.IdleKey(n.Used, n.IdleAt, n.Seq)
	m.O.Set(key, nil)
	m.idle.Of(n).Insert(key)
	m.Touch(&n.Dirty, n)
}

func (m *Machine) DeleteIdle(n *row.Session) {
	key := row.IdleKey(n.Used, n.IdleAt, n.Seq)
	m.O.Delete(key)
	m.idle.Of(n).Remove(key)
}

// useSession records that a session carries out a request.
func (a *Applying) useSession(n *row.Session) {
	if n.Used && n.UsedAt == a.Now.At {
		return
	}
	n.UsedAt = a.Now.At
	if !n.Used {
		a.DeleteIdle(n)
		n.Used = true
		a.PutIdle(n)
	}
	a.Touch(&n.Dirty, n)
}

// retimeSession sets the timer of a session. Requests do not move the timer, so it may be early; it is set again when
// it is due.
func (m *Machine) retimeSession(n *row.Session) {
	n.TimerAt = n.ExpiresAt()
	m.SetTimer(row.TimerKey(n.TimerAt, row.SessionTimer, n.Seq, 0, 0))
	m.Touch(&n.Dirty, n)
}

// expireSession deletes a session whose timer is due, unless it has carried out a request since the timer was set. It
// returns about how many rows that wrote.
func (a *Applying) expireSession(key string, seq uint64) (rows int) {
	a.DeleteTimer(key)
	n := a.session(seq)
	if n == nil {
		lsm.Contradict("find session", "session %d has a timer and no row", seq)
	}
	if n.ExpiresAt() > a.Due {
		a.retimeSession(n)
		return row.TickSpanRows
	}
	return row.TickSpanRows + a.deleteSession(n)
}

// deleteSession deletes the rows of a session except its timer, and returns the number of its slots. A slot first used
// since the last commit does not have a row yet, and will not get one.
func (a *Applying) deleteSession(n *row.Session) (slots int) {
	n.Gone = true
	a.countSession(n, ^uint64(0), -n.Taken())
	a.DeleteIdle(n)
	a.O.Delete(row.SeqKey(row.SessionTable, n.Seq))
	prefix := row.SeqKey(row.SlotTable, n.Seq)
	var keys []string
	a.O.Scan(prefix, lsm.After(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		delete(n.Written, row.SlotOfKey(key))
		return true
	})
	for _, key := range keys {
		a.O.Delete(key)
	}
	a.Sessions.Delete(n.Seq)
	return len(keys) + len(n.Written)
}
