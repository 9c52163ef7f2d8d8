package store

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// modelOnce is the result of a request with a key or a number.
type modelOnce struct {
	digest job.Digest
	at     int64 // when its last part was carried out
	made   *applied.Made
	claim  *modelClaim
	ended  []*applied.Ended
}

// modelSession is a session and the last request of each of its slots.
type modelSession struct {
	id         job.ID
	runner     string
	at, usedAt int64
	used       bool
	slots      map[int]modelSlot
}

type modelSlot struct {
	number uint64
	once   *modelOnce
}

func (n *modelSession) ExpiresAt() int64 { return n.usedAt + job.KeyLifeMs }

// makeRoomForSession deletes the session that is least likely to be in use, by the rules of the store. If runner is not
// nil, it deletes one of this runner's sessions.
func (m *model) makeRoomForSession(runner *string) bool {
	var all []*modelSession
	for _, n := range m.sessions {
		if runner != nil && n.runner != *runner {
			continue
		}
		if n.used && n.usedAt+job.IdleSessionMs <= m.at || !n.used && n.at+job.UnusedSessionMs <= m.at {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return false
	}
	first := slices.MinFunc(all, func(a, b *modelSession) int {
		if a.used != b.used {
			if a.used {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.usedAt, b.usedAt), bytes.Compare(a.id[:], b.id[:]))
	})
	delete(m.sessions, first.id)
	return true
}

func (m *model) openSession(cmd job.OpenSession) applied.Result {
	own, open := uint64(0), uint64(len(m.sessions))
	for _, n := range m.sessions {
		if n.runner == cmd.Runner {
			own++
		}
	}
	if own >= max(1, m.rules.Sessions/1024, m.rules.Sessions-open) {
		if !m.makeRoomForSession(&cmd.Runner) {
			return &applied.SessionOpened{Refusal: job.TooManySessions}
		}
	} else if open >= m.rules.Sessions && !m.makeRoomForSession(nil) {
		return &applied.SessionOpened{Refusal: job.TooManySessions}
	}
	n := &modelSession{id: job.NewID(m.at, m.seq, 0), runner: cmd.Runner, at: m.at, usedAt: m.at, slots: map[int]modelSlot{}}
	m.sessions[n.id] = n
	doc := n.Document()
	return &applied.SessionOpened{Session: doc}
}

func (m *model) endSession(cmd job.EndSession) applied.Result {
	if m.sessions[cmd.Session] == nil {
		return &applied.SessionEnded{Refusal: job.SessionNotFound}
	}
	delete(m.sessions, cmd.Session)
	return &applied.SessionEnded{}
}

func (n *modelSession) Document() document.Session {
	doc := document.Session{ID: n.id, Runner: n.runner, CreatedAt: n.at, UsedAt: n.usedAt, ExpiresAt: n.ExpiresAt()}
	for index, l := range n.slots {
		doc.Slots = append(doc.Slots, document.SlotState{index, l.number})
	}
	slices.SortFunc(doc.Slots, func(a, b document.SlotState) int { return cmp.Compare(a.Slot, b.Slot) })
	return doc
}

// expireSessions deletes the sessions that are due, if the store has deleted them. Without a store, it deletes all due
// sessions.
func (m *model) expireSessions(has func(job.ID) bool) error {
	for id, n := range m.sessions {
		due := n.ExpiresAt() <= m.at
		if has == nil && due || has != nil && !has(id) {
			if !due {
				return fmt.Errorf("session %v is forgotten at %d, before its end %d", id, m.at, n.ExpiresAt())
			}
			delete(m.sessions, id)
		}
	}
	return nil
}

// past returns the recorded result of the request of a command, or nil if it was not carried out yet.
func (m *model) past(o *job.Once) (*modelOnce, job.Refusal) {
	var done *modelOnce
	reused := job.KeyReused
	switch {
	case !o.Given():
		return nil, job.Granted
	case o.Numbered():
		reused = job.NumberReused
		n := m.sessions[o.Session]
		if n == nil {
			return nil, job.SessionNotFound
		}
		l := n.slots[o.Slot]
		if o.Number < l.number {
			return nil, job.NumberPassed
		}
		if o.Number == l.number {
			done = l.once
		}
	default:
		if done = m.once[[2]string{o.Scope, o.Key}]; done != nil && done.at+job.KeyLifeMs <= m.at {
			return nil, job.Granted
		}
	}
	if done != nil && done.digest != o.Digest {
		return nil, reused
	}
	return done, job.Granted
}

// keepOnce records the result of a request.
func (m *model) keepOnce(o *job.Once, done modelOnce) {
	if !o.Given() {
		return
	}
	done.digest, done.at = o.Digest, m.at
	if o.Numbered() {
		n := m.sessions[o.Session]
		n.slots[o.Slot] = modelSlot{o.Number, &done}
		n.usedAt, n.used = m.at, true
		return
	}
	m.once[[2]string{o.Scope, o.Key}] = &done
}

// complete carries out a completion, unless it repeats an earlier one.
func (m *model) complete(cmd job.Complete) applied.Result {
	before, refusal := m.past(&cmd.Once)
	if refusal != job.Granted {
		return &applied.Ended{Denied: refusal}
	}
	next := modelOnce{}
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
	first.Seq, first.At = m.seq, m.at
	next.ended = append(slices.Clip(next.ended), &first)
	m.keepOnce(&cmd.Once, next)
	return result
}

// once gives some commands one of a few keys, or a number of a session.
func (g *generator) once(o *job.Once, scope string) {
	digest := job.Digest{byte(g.IntN(8) / 7)}
	switch n := g.IntN(100); {
	case n < 12:
		*o = job.Once{Scope: scope + oneOf(g, "s", "t u"), Key: oneOf(g, "1", "2", "3"), Digest: digest}
	case n < 32 && len(g.sessions) > 0:
		id := g.sessions[max(0, len(g.sessions)-1-g.IntN(3))]
		slot, last := oneOf(g, 0, 0, 1, job.MaxSlots-1), uint64(0)
		if n := g.m.sessions[id]; n != nil {
			last = n.slots[slot].number
		}
		if g.some(3) {
			id = job.NewID(id.At()+1, uint64(id.LowSeq()), 0)
		}
		*o = job.Once{Session: id, Slot: slot, Number: max(1, last+oneOf[uint64](g, 0, 0, 1, 1, 1, 9)-oneOf[uint64](g, 0, 0, 0, 0, min(1, last))), Digest: digest}
	}
}

func (g *generator) endSession() job.Command {
	if len(g.sessions) == 0 || g.some(5) {
		return job.EndSession{Session: job.NewID(g.at, 3, 0)}
	}
	return job.EndSession{Session: g.sessions[g.IntN(len(g.sessions))]}
}

// compareSessions compares the documents of all sessions, and their number.
func (p *player) compareSessions() error {
	for id, n := range p.m.sessions {
		got, err := p.s.SessionDocument(id)
		if want := n.Document(); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("session\n\t%+v (%v), the model has\n\t%+v", got, err, want)
		}
	}
	if got := p.s.Totals().Sessions; got != uint64(len(p.m.sessions)) {
		return fmt.Errorf("%d sessions, the model has %d", got, len(p.m.sessions))
	}
	return nil
}
