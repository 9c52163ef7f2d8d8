package model

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// once is the result of a request with a key or a number.
type once struct {
	digest job.Digest
	owner  string
	at     int64 // when its last part was carried out
	made   *applied.Made
	claim  *Claim
	ended  []*applied.Ended
}

// Session is a session and the last request of each of its slots.
type Session struct {
	ID         job.ID
	Owner      string
	runner, by string
	at, usedAt int64
	used       bool
	Slots      map[int]Slot
}

type Slot struct {
	Number uint64
	once   *once
}

// For reports whether an actor may use the session.
func (n *Session) For(by *job.Actor) bool {
	return by.All() || n.by == by.Name && (by.Owner() == "" || n.Owner == by.Owner())
}

func (n *Session) ExpiresAt() int64 { return n.usedAt + job.KeyLifeMs }

// makeRoomForSession deletes the session that is least likely to be in use, by the rules of the store. If owner is not
// nil, it deletes one of this owner's sessions.
func (m *Model) makeRoomForSession(owner *string) bool {
	var all []*Session
	for _, n := range m.Sessions {
		if owner != nil && n.Owner != *owner {
			continue
		}
		if n.used && n.usedAt+job.IdleSessionMs <= m.At || !n.used && n.at+job.UnusedSessionMs <= m.At {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return false
	}
	first := slices.MinFunc(all, func(a, b *Session) int {
		if a.used != b.used {
			if a.used {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.usedAt, b.usedAt), bytes.Compare(a.ID[:], b.ID[:]))
	})
	delete(m.Sessions, first.ID)
	return true
}

func (m *Model) openSession(cmd job.OpenSession) applied.Result {
	owner := cmp.Or(m.By.Owner(), cmd.Runner)
	own, open := uint64(0), uint64(len(m.Sessions))
	for _, n := range m.Sessions {
		if n.Owner == owner {
			own++
		}
	}
	if own >= max(1, m.bounds.Sessions/1024, m.bounds.Sessions-open) {
		if !m.makeRoomForSession(&owner) {
			return &applied.SessionOpened{Refusal: job.TooManySessions}
		}
	} else if open >= m.bounds.Sessions && !m.makeRoomForSession(nil) {
		return &applied.SessionOpened{Refusal: job.TooManySessions}
	}
	n := &Session{ID: job.NewID(m.At, m.Seq, 0), Owner: owner, runner: cmd.Runner, by: m.By.Name, at: m.At, usedAt: m.At, Slots: map[int]Slot{}}
	m.Sessions[n.ID] = n
	doc := n.Document()
	return &applied.SessionOpened{Session: doc}
}

func (m *Model) endSession(cmd job.EndSession) applied.Result {
	if n := m.Sessions[cmd.Session]; n == nil || !n.For(m.By) {
		return &applied.SessionEnded{Refusal: job.SessionNotFound}
	}
	delete(m.Sessions, cmd.Session)
	return &applied.SessionEnded{}
}

func (n *Session) Document() document.Session {
	doc := document.Session{ID: n.ID, Runner: n.runner, CreatedAt: n.at, UsedAt: n.usedAt, ExpiresAt: n.ExpiresAt()}
	for index, l := range n.Slots {
		doc.Slots = append(doc.Slots, document.SlotState{index, l.Number})
	}
	slices.SortFunc(doc.Slots, func(a, b document.SlotState) int { return cmp.Compare(a.Slot, b.Slot) })
	return doc
}

// expireSessions deletes the sessions that are due, if the store has deleted them. Without a store, it deletes all due
// sessions.
func (m *Model) expireSessions(has func(job.ID) bool) error {
	for id, n := range m.Sessions {
		due := n.ExpiresAt() <= m.dueAt
		if has == nil && due || has != nil && !has(id) {
			if !due {
				return fmt.Errorf("session %v is forgotten at %d, before its end %d", id, m.At, n.ExpiresAt())
			}
			delete(m.Sessions, id)
		}
	}
	return nil
}

// KeysOf returns how many idempotency keys of an owner a repeat finds.
func (m *Model) KeysOf(owner string) (keys int64) {
	for _, o := range m.once {
		if o.owner == owner && o.at+job.KeyLifeMs > m.At {
			keys++
		}
	}
	return keys
}

// past returns the recorded result of the request of a command, or nil if it was not carried out yet.
func (m *Model) past(o *job.Once) (*once, job.Refusal) {
	var done *once
	reused := job.KeyReused
	switch {
	case !o.Given():
		return nil, job.Granted
	case o.Numbered():
		reused = job.NumberReused
		n := m.Sessions[o.Session]
		if n == nil {
			return nil, job.SessionNotFound
		}
		l := n.Slots[o.Slot]
		if o.Number < l.Number {
			return nil, job.NumberPassed
		}
		if o.Number == l.Number {
			done = l.once
		}
	default:
		if done = m.once[[2]string{o.Scope, o.Key}]; done != nil && done.at+job.KeyLifeMs <= m.At {
			return nil, job.Granted
		}
	}
	if done != nil && done.digest != o.Digest {
		return nil, reused
	}
	return done, job.Granted
}

// keepOnce records the result of a request.
func (m *Model) keepOnce(o *job.Once, done once) {
	if !o.Given() {
		return
	}
	done.digest, done.at = o.Digest, m.At
	if o.Numbered() {
		n := m.Sessions[o.Session]
		n.Slots[o.Slot] = Slot{o.Number, &done}
		n.usedAt, n.used = m.At, true
		return
	}
	done.owner = o.Owner(&m.By.Scope)
	key := [2]string{o.Scope, o.Key}
	const halfLife = job.KeyLifeMs / 2 // what is done for a request within it is in one row, which keeps its owner
	if before := m.once[key]; before != nil && before.at/halfLife == m.At/halfLife {
		done.owner = before.owner
	}
	m.once[key] = &done
}

// complete carries out a completion, unless it repeats an earlier one.
func (m *Model) complete(cmd job.Complete) applied.Result {
	before, refusal := m.past(&cmd.Once)
	if refusal != job.Granted {
		return &applied.Ended{Denied: refusal}
	}
	next := once{}
	if before != nil {
		next = *before
	}
	if part := cmd.Once.Part; part < len(next.ended) {
		again := *next.ended[part]
		if len(again.Results) != len(cmd.Outcomes) {
			return &applied.Ended{Denied: job.KeyReused}
		}
		again.Results = slices.Clone(again.Results)
		for i := range again.Results {
			again.Results[i].ID = cmd.Outcomes[i].ID
		}
		again.Replayed = true
		return &again
	} else if part > len(next.ended) {
		return &applied.Ended{Denied: job.KeyReused}
	}
	result := m.endRuns(cmd)
	first := *result
	first.Seq, first.At = m.Seq, m.At
	next.ended = append(slices.Clip(next.ended), &first)
	m.keepOnce(&cmd.Once, next)
	return result
}
