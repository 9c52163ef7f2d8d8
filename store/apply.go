package store

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// Apply carries out one command: the only state machine there is. It is total and deterministic. It knows no clock, no chance and
// no configuration; what it decides follows from the command, its seq and time, and the state that earlier commands made, so that
// the same journal always leads to the same keys and values. A command at or below the cursor has been applied and changes
// nothing. Queries see the effects after Commit.
//
// An error means that the database below failed; the store must then be closed.
func (s *Store) Apply(seq uint64, at int64, cmd job.Command) (result Result, err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.db == nil {
		return nil, ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil || seq <= s.meta.cursor {
		return nil, s.broken
	}
	defer func() { s.broken = err }()
	defer catch(&err)
	s.now = job.Now{Seq: seq, At: max(at, s.meta.at)}
	s.beginEpoch()
	switch cmd := cmd.(type) {
	case *job.Create:
		if made := s.create(cmd); made != nil {
			result = made
		}
	case job.Claim:
		result = s.applyClaim(cmd)
	case job.Tickle:
		result = s.tickle(cmd)
	case job.Complete:
		result = s.complete(cmd)
	case job.Pause:
		result = s.pause(cmd)
	case job.Switch:
		result = s.setSwitch(cmd)
	case job.DeleteQueue:
		result = s.deleteQueue(cmd)
	case job.DeleteIdleQueues:
		result = s.deleteIdleQueues(cmd)
	case job.Move:
		if cmd.Job.IsZero() {
			result = s.startSweep(cmd)
		} else {
			result = s.moveOne(cmd)
		}
	case job.Patch:
		result = s.patch(cmd)
	case job.OpenSession:
		result = s.openSession(cmd)
	case job.EndSession:
		result = s.endSession(cmd)
	case job.Tick:
		s.tick(cmd)
	case job.Grace:
		s.meta.graceAt = s.now.At
	case job.SetLevel:
		if cmd.Level > job.Level {
			fail("raise level", fmt.Errorf("level %d, and this program knows %d: %w", cmd.Level, job.Level, ErrNewerFormat))
		}
		s.meta.level = max(s.meta.level, cmd.Level)
		s.followLevel()
	case job.Mark:
	default:
		panic(fmt.Sprintf("store: no way to apply %T", cmd))
	}
	s.settle()
	s.writeEffects()
	s.meta.cursor, s.meta.at = seq, s.now.At
	s.pending = true
	return result, nil
}

// Pending returns how many bytes the next Commit will write.
func (s *Store) Pending() int { return s.o.bytes }

const hourMs = 3_600_000

// create makes a batch. It returns nil for one without keys, which nobody waits for.
func (s *Store) create(c *job.Create) *Made {
	if c.Once.Given() {
		if made := s.past().made(&c.Once); made != nil {
			return made
		}
	}
	b := &batch{seq: s.now.Seq, at: s.now.At, lines: uint32(c.Lines()), frame: c.Frame, longest: c.Longest}
	first := uint32(0)
	for i := range c.Groups {
		g := &c.Groups[i]
		b.groups = append(b.groups, group{
			first: first, last: first + uint32(g.Lines) - 1, queue: s.makeQueue(g.Client, g.Type).id, Attributes: g.Attributes,
		})
		first += uint32(g.Lines)
	}
	existing := s.takeKeys(b, c.Unique)
	s.batches.set(b.seq, b)
	if b.frame != job.NoFrame {
		s.writePages(b, c.Payloads)
	}
	s.o.set(seqKey(batchTable, b.seq), b.encode())
	holes := existing
	for i := range b.groups {
		g := &b.groups[i]
		holes = s.addGroup(b, g, job.Admit(&g.Attributes, s.now), holes)
	}
	for _, x := range existing {
		s.dropPages(b, x.line, x.line)
	}
	s.dropGone(b)
	if len(c.Unique) == 0 && !c.Once.Given() {
		return nil
	}
	made := &Made{Batch: b.id(), Seq: b.seq, Lines: int(b.lines)}
	for _, x := range existing {
		made.Existing = append(made.Existing, Existing{int(x.line), x.id})
	}
	made.Group = c.Groups[0]
	if c.Once.Given() {
		s.rememberOnce(&c.Once, &done{
			seq: b.seq, at: b.at, lines: b.lines, group: b.groups[0], queue: queueName{made.Group.Client, made.Group.Type}, existing: existing,
		})
	}
	return made
}

// addGroup writes the first spans of a group: its lines are in st, but for those that made no job, which are holes from the beginning. It
// returns the holes behind the group.
func (s *Store) addGroup(b *batch, g *group, st job.State, holes []madeBy) []madeBy {
	for line := g.first; line <= g.last; {
		last, now := g.last, st
		if len(holes) > 0 && holes[0].line <= g.last {
			if last = holes[0].line - 1; holes[0].line == line {
				last, now = line, job.State{Status: job.Purged}
				for holes = holes[1:]; len(holes) > 0 && holes[0].line == last+1 && last < g.last; holes = holes[1:] {
					last++
				}
			}
		}
		s.addSpan(b, g, line, last, now)
		line = last + 1
	}
	return holes
}

// setSwitch sets the switch that stops all handing out.
func (s *Store) setSwitch(cmd job.Switch) *Switched {
	s.allReadied = s.meta.stopped && !cmd.Stopped || s.allReadied && !cmd.Stopped
	s.meta.stopped = cmd.Stopped
	return &Switched{Stopped: s.meta.stopped}
}

func (s *Store) makeQueue(client, typ string) *queue {
	if q := s.queues.byName[queueName{client, typ}]; q != nil {
		return q
	}
	q := &queue{windows: s.windows, id: s.meta.nextQueue, client: client, typ: typ, createdAt: s.now.At}
	s.meta.nextQueue++
	s.queues.add(q)
	s.touch(&q.dirty, q)
	s.reviseIdle(q)
	return q
}

func (s *Store) pause(p job.Pause) *Paused {
	q := s.queues.byName[queueName{p.Client, p.Type}]
	if q == nil {
		return &Paused{Refusal: job.QueueNotFound}
	}
	if q.paused != p.Paused {
		q.paused = p.Paused
		s.touch(&q.dirty, q)
		s.reviseIdle(q)
		s.queueMoved(q)
		if !q.paused {
			s.gained(q)
		}
	}
	return &Paused{}
}

// find returns the batch and the span of a job, or a nil batch when there is no such job.
func (s *Store) find(id job.ID) (*batch, span) {
	b := s.batchOf(id)
	line := uint32(id.Line())
	if b == nil || line >= b.lines {
		return nil, span{}
	}
	sp := s.spanAt(b.seq, line)
	if sp.Status == job.Purged {
		return nil, span{}
	}
	return b, sp
}

// holder returns what a fence needs to know of the claims around a job.
func (s *Store) holder(sp *span, f *job.Fence) (h job.Holder) {
	if !f.Claim.IsZero() {
		if c := s.claimByID(f.Claim); c != nil {
			h.Named = c.seq
		}
	}
	if f.Runner != "" && sp.Claim != 0 {
		h.Runner = s.claim(sp.Claim).runner
	}
	return h
}

// mix scrambles what makes a jitter: splitmix64's finalizer over each part (Steele, Lea, Flood: Fast Splittable Pseudorandom
// Number Generators, 2014).
func mix(seed, seq, batch uint64, line uint32) uint64 {
	x := seed
	for _, part := range [...]uint64{seq, batch, uint64(line)} {
		x += part + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
