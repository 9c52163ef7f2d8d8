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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil || seq <= s.meta.cursor {
		return nil, s.broken
	}
	defer func() { s.broken = err }()
	defer catch(&err)
	s.seq, s.now = seq, max(at, s.meta.at)
	switch cmd := cmd.(type) {
	case *job.Create:
		s.create(cmd)
	case job.Claim:
		result = s.applyClaim(cmd)
	case job.Tickle:
		result = s.tickle(cmd)
	case job.Complete:
		result = s.complete(cmd)
	case job.Pause:
		result = s.pause(cmd)
	case job.Tick:
		s.tick(cmd)
	case job.Grace:
		s.meta.graceAt = s.now
	case job.SetLevel:
		if cmd.Level > job.Level {
			fail("raise level", fmt.Errorf("level %d, and this program knows %d: %w", cmd.Level, job.Level, ErrNewerFormat))
		}
		s.meta.level = max(s.meta.level, cmd.Level)
	case job.Mark:
	default:
		panic(fmt.Sprintf("store: no way to apply %T", cmd))
	}
	s.settle()
	s.writeEffects()
	s.meta.cursor, s.meta.at = seq, s.now
	s.pending = true
	return result, nil
}

// Pending returns how many bytes the next Commit will write.
func (s *Store) Pending() int { return s.o.bytes }

const (
	hourMs = 3_600_000
	// effectRetentionMs is how long effects rows are kept.
	effectRetentionMs = 14 * 24 * hourMs
)

// writeEffects keeps what the command moved, for those who read history.
func (s *Store) writeEffects() {
	if len(s.effects) == 0 {
		return
	}
	if hour := s.now / hourMs; hour != s.meta.effectHour {
		s.meta.effectHour = hour
		s.setTimer(timerKey(s.now+effectRetentionMs, effectTimer, s.seq, 0, 0))
	}
	s.o.set(seqKey(effectTable, s.seq), encodeEffects(s.now, s.effects))
	s.effects = s.effects[:0]
}

func (s *Store) create(c *job.Create) {
	b := &batch{seq: s.seq, at: s.now, lines: uint32(c.Lines()), frame: c.Frame, longest: c.Longest}
	first := uint32(0)
	for i := range c.Groups {
		g := &c.Groups[i]
		b.groups = append(b.groups, group{
			first: first, last: first + uint32(g.Lines) - 1, queue: s.makeQueue(g.Client, g.Type).id, kind: g.Kind,
			priority: uint32(g.Priority), runAt: g.RunAt, maxAttempts: g.MaxAttempts, backoff: g.Backoff, leaseMs: g.LeaseMs,
			retentionMs: g.RetentionMs,
		})
		first += uint32(g.Lines)
	}
	s.batches[b.seq] = b
	s.o.set(seqKey(batchTable, b.seq), b.encode())
	if b.frame != job.NoFrame {
		s.writePages(b, c.Payloads)
	}
	for i := range b.groups {
		g := &b.groups[i]
		st := state{status: job.Pending, class: fresh, order: s.seq, updatedAt: s.now}
		if g.runAt > s.now {
			st = state{status: job.Deferred, class: fresh, at: g.runAt, updatedAt: s.now}
		}
		s.addSpan(b, g, st)
	}
}

func (s *Store) makeQueue(client, typ string) *queue {
	if q := s.queues.byName[queueName{client, typ}]; q != nil {
		return q
	}
	q := &queue{windows: s.windows, id: s.meta.nextQueue, client: client, typ: typ, createdAt: s.now}
	s.meta.nextQueue++
	s.queues.add(q)
	s.touch(&q.dirty, q)
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
		s.queueMoved(q)
		if !q.paused {
			s.gained(q)
		}
	}
	return &Paused{}
}

func (s *Store) applyClaim(cmd job.Claim) *Claimed {
	c := &claim{seq: s.seq, at: s.now, runner: cmd.Runner}
	c.tickled = tickled{s.seq, s.now, cmd.LeaseMs}
	s.claims[c.seq] = c
	result := &Claimed{Claim: job.NewID(c.at, c.seq, 0), runner: c.runner}
	left, room := cmd.Max, payloadRoom{limit: cmd.MaxBytes}
	choice := s.queues.choice(cmd.Clients, cmd.Types)
	for left > 0 {
		q := s.queues.next(choice)
		if q == nil {
			break
		}
		_, _, _, seq, last := splitReadyKey(q.head)
		sp, b := s.spanAt(seq, last), s.batch(seq)
		g := b.group(last)
		if c.leaseMs == 0 {
			c.leaseMs = g.leaseMs
		} else if cmd.LeaseMs == 0 && c.leaseMs != g.leaseMs {
			break // a claim has one lease
		}
		n := room.take(s, b, sp.first, min(left, int(last-sp.first)+1), len(c.runs) == 0)
		if n == 0 {
			break
		}
		end := sp.first + uint32(n) - 1
		next := state{status: job.Active, attempts: sp.attempts + 1, claim: c.seq, updatedAt: s.now}
		result.handouts = append(result.handouts, handout{b, span{sp.first, end, next}, q.client, q.typ, b.details})
		s.move(b, sp, sp.first, end, next, claimed)
		if prev := len(c.runs) - 1; prev >= 0 && c.runs[prev].Batch == seq && c.runs[prev].Last+1 == sp.first {
			c.runs[prev].Last = end
		} else {
			c.runs = append(c.runs, Run{seq, sp.first, end})
		}
		left -= n
		s.queues.place(q, &s.o) // its head is another now
	}
	if len(c.runs) == 0 {
		delete(s.claims, c.seq)
		return &Claimed{}
	}
	s.openClaim(c)
	result.LeaseMs, result.Runs = c.leaseMs, c.runs
	return result
}

// payloadRoom counts the payload bytes of a claim against its limit. As long as even the longest payloads would fit nothing is
// looked up; then what has been taken is measured once, and all that follows.
type payloadRoom struct {
	limit int64
	bound int64 // no more than this has been taken
	taken []Run // while bound is all that is known
	exact bool
}

// take returns how many of n lines, from first on, still fit. One line always does when it is the first of all.
func (p *payloadRoom) take(s *Store, b *batch, first uint32, n int, one bool) int {
	if !p.exact {
		if bound := p.bound + int64(n)*int64(b.longest); bound <= p.limit {
			p.bound = bound
			p.taken = append(p.taken, Run{b.seq, first, first + uint32(n) - 1})
			return n
		}
		p.exact, p.bound = true, 0
		for _, r := range p.taken {
			eachPayload(&s.o, s.batch(r.Batch), r.First, r.Last, func(_ uint32, payload []byte) bool {
				p.bound += int64(len(payload))
				return true
			})
		}
	}
	fit := 0
	eachPayload(&s.o, b, first, first+uint32(n)-1, func(_ uint32, payload []byte) bool {
		if size := int64(len(payload)); p.bound+size <= p.limit || one && fit == 0 {
			p.bound += size
			fit++
			return true
		}
		return false
	})
	return fit
}

// find returns the batch and the span of a job, or a nil batch when there is no such job.
func (s *Store) find(id job.ID) (*batch, span) {
	b := s.batch(id.Seq())
	line := uint32(id.Line())
	if b == nil || line >= b.lines || job.NewID(b.at, b.seq, int(line)) != id {
		return nil, span{}
	}
	sp := s.spanAt(b.seq, line)
	if sp.status == job.Purged {
		return nil, span{}
	}
	return b, sp
}

// admit says whether a request that names a claim and a runner (or neither) may act on a span.
func (s *Store) admit(sp *span, claimID job.ID, runner string) job.Refusal {
	if !claimID.IsZero() {
		c := s.claimByID(claimID)
		if c == nil || sp.status != job.Active || sp.claim != c.seq {
			return job.ClaimLost
		}
	} else if sp.status != job.Active {
		return job.NotActive
	}
	if runner != "" && s.claim(sp.claim).runner != runner {
		return job.RunnerDiffers
	}
	return job.Granted
}

func (s *Store) complete(cmd job.Complete) *Ended {
	result := &Ended{}
	c := s.claimByID(cmd.Claim) // before the exceptions, which may end the last line that names it
	for i := range cmd.Outcomes {
		o := &cmd.Outcomes[i]
		result.Results = append(result.Results, s.endOne(&cmd, o))
	}
	if cmd.All != nil {
		result.All, result.Refusal = s.endAll(c, &cmd)
	}
	return result
}

func (s *Store) endOne(cmd *job.Complete, o *job.Outcome) JobResult {
	b, sp := s.find(o.ID)
	if b == nil {
		return JobResult{ID: o.ID, Refusal: job.NotFound}
	}
	if refusal := s.admit(&sp, cmd.Claim, cmd.Runner); refusal != job.Granted {
		// A repeated request, whose first answer was lost, gets the same answer again.
		if c := s.claimByID(cmd.Claim); refusal == job.ClaimLost && c != nil && sp.claim == c.seq {
			if cmd.Runner != "" && c.runner != cmd.Runner {
				refusal = job.RunnerDiffers
			} else if refusal = job.OutcomeDiffers; o.Same(sp.code, int(sp.exitCode)) {
				return JobResult{ID: o.ID, Status: sp.status}
			}
		}
		return JobResult{ID: o.ID, Refusal: refusal}
	}
	line := uint32(o.ID.Line())
	return JobResult{ID: o.ID, Status: s.end(b, sp, line, line, o)}
}

// endAll gives an outcome to all that a claim still holds, and counts the lines that have it.
func (s *Store) endAll(c *claim, cmd *job.Complete) (n int, refusal job.Refusal) {
	if c == nil {
		return 0, job.ClaimLost
	}
	if cmd.Runner != "" && c.runner != cmd.Runner {
		return 0, job.RunnerDiffers
	}
	for _, r := range c.runs {
		s.eachIfThere(r, func(b *batch, sp span, first, last uint32) {
			switch {
			case sp.claim != c.seq:
			case sp.status == job.Active:
				s.end(b, sp, first, last, cmd.All)
				n += int(last-first) + 1
			case cmd.All.Same(sp.code, int(sp.exitCode)):
				n += int(last-first) + 1
			}
		})
	}
	excepted := map[job.ID]bool{}
	for i := range cmd.Outcomes { // an exception is not counted, even when its outcome is the same
		id := cmd.Outcomes[i].ID
		b, sp := s.find(id)
		if b != nil && !excepted[id] && c.handedOut(b.seq, uint32(id.Line())) && sp.claim == c.seq && cmd.All.Same(sp.code, int(sp.exitCode)) {
			n--
		}
		excepted[id] = true
	}
	if n == 0 && len(cmd.Outcomes) == 0 {
		return 0, job.ClaimLost
	}
	return n, job.Granted
}

func (c *claim) handedOut(seq uint64, line uint32) bool {
	for _, r := range c.runs {
		if r.Batch == seq && r.First <= line && line <= r.Last {
			return true
		}
	}
	return false
}

// end ends the run of active lines first … last of sp and returns where they went.
func (s *Store) end(b *batch, sp span, first, last uint32, o *job.Outcome) job.Status {
	g := b.group(first)
	next := state{code: o.Code, exitCode: uint16(o.ExitCode), attempts: sp.attempts, claim: sp.claim, updatedAt: s.now}
	to, counts := o.Code.Next(int(sp.attempts), g.maxAttempts)
	if !counts {
		next.attempts--
	}
	if to == job.Deferred {
		delay := o.DelayMs
		if delay < 0 {
			delay = g.backoff.Delay(int(sp.attempts), mix(s.seed, s.seq, b.seq, first))
		}
		if next.class, next.at = back, s.now+delay; delay == 0 {
			to, next.at = job.Pending, 0
		}
	}
	if to.Terminal() {
		next.at = s.now
	}
	next.status = to
	if o.Code != job.OK && o.Code != job.Unget {
		s.remember(b, first, last, sp.attempts, job.Attempt{At: s.now, Runner: s.claim(sp.claim).runner, Code: o.Code, ExitCode: o.ExitCode,
			Error: o.Error, Why: job.Told})
	}
	if !o.Result.Empty() {
		value := encodeResult(sp.claim, &o.Result)
		for line := first; line <= last; line++ {
			s.setDetail(b, line, resultDetail, value)
		}
	}
	s.move(b, sp, first, last, next, ended)
	s.retire(b, g, first, last, to)
	return to
}

// retire purges lines at once that became terminal and are not to be kept.
func (s *Store) retire(b *batch, g *group, first, last uint32, to job.Status) {
	if to.Terminal() && g.retentionMs == 0 {
		s.each(b.seq, first, last, func(sp span, first, last uint32) { s.purge(b, sp, first, last) })
	}
}

// remember adds an attempt, in a row of its own, to the history of each line. attempts is how often the lines were claimed: with no
// more than are kept there is nothing to forget.
func (s *Store) remember(b *batch, first, last uint32, attempts uint32, a job.Attempt) {
	value := encodeAttempt(&a)
	for line := first; line <= last; line++ {
		s.o.set(historyKey(b.seq, line, s.seq), value)
		if attempts > job.MaxHistory {
			s.forget(b, line)
		}
	}
	b.details = true
	s.touch(&b.dirty, b)
}

// forget drops the oldest attempts of a line beyond those that are kept.
func (s *Store) forget(b *batch, line uint32) {
	var keys []string
	prefix := detailKey(b.seq, line, historyDetail)
	s.o.scan(prefix, after(prefix), func(key string, _ []byte) bool {
		keys = append(keys, key)
		return true
	})
	for _, key := range keys[:max(0, len(keys)-job.MaxHistory)] {
		s.o.del(key)
	}
}

func (s *Store) setDetail(b *batch, line uint32, kind byte, value []byte) {
	s.o.set(detailKey(b.seq, line, kind), value)
	b.details = true
	s.touch(&b.dirty, b)
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

func (s *Store) tickle(t job.Tickle) *Tickled {
	switch {
	case len(t.IDs) > 0:
		return s.tickleJobs(t)
	case !t.Claim.IsZero():
		return s.tickleClaim(t)
	}
	r := s.runner(t.Runner)
	if r.held == 0 {
		return &Tickled{Refusal: job.ClaimLost}
	}
	// What it holds is not touched: its timer rows look here when they come up.
	r.tickledAt = s.now
	if t.LeaseMs == 0 {
		r.plainAt = s.now
	} else {
		r.until, r.untilSeq = max(r.until, s.now+t.LeaseMs), s.seq
	}
	s.touch(&r.dirty, r)
	return &Tickled{Held: r.held}
}

func (s *Store) tickleClaim(t job.Tickle) *Tickled {
	c := s.claimByID(t.Claim)
	switch {
	case c == nil:
		return &Tickled{Refusal: job.ClaimLost}
	case t.Runner != "" && c.runner != t.Runner:
		return &Tickled{Refusal: job.RunnerDiffers}
	}
	result := &Tickled{Held: c.held}
	if c.held < c.lines() {
		for _, r := range c.runs {
			s.eachIfThere(r, func(b *batch, sp span, first, last uint32) {
				if sp.claim == c.seq || sp.status == job.Purged {
					return // held, ended by this very claim, or gone
				}
				for line := first; line <= last; line++ {
					result.Lost = append(result.Lost, JobResult{ID: job.NewID(b.at, b.seq, int(line)), Refusal: job.ClaimLost})
				}
			})
		}
	}
	if c.held == 0 {
		result.Refusal = job.ClaimLost
		return result
	}
	s.renew(c, t.LeaseMs)
	return result
}

func (s *Store) tickleJobs(t job.Tickle) *Tickled {
	result := &Tickled{}
	type line struct {
		b    *batch
		line uint32
	}
	var order []*claim // in which they were first named
	named := map[*claim]map[job.ID]line{}
	for _, id := range t.IDs {
		b, sp := s.find(id)
		refusal := job.NotFound
		if b != nil {
			refusal = s.admit(&sp, t.Claim, t.Runner)
		}
		if refusal != job.Granted {
			result.Lost = append(result.Lost, JobResult{ID: id, Refusal: refusal})
			continue
		}
		c := s.claim(sp.claim)
		if named[c] == nil {
			named[c] = map[job.ID]line{}
			order = append(order, c)
		}
		if _, repeated := named[c][id]; repeated {
			continue
		}
		named[c][id] = line{b, uint32(id.Line())}
		result.Held++
		if t.Step != "" || t.Progress >= 0 {
			s.progress(b, c, uint32(id.Line()), t.Step, t.Progress)
		}
	}
	for _, c := range order {
		lines := named[c]
		if len(lines) == c.held { // all that it holds
			s.renew(c, t.LeaseMs)
			continue
		}
		for _, id := range t.IDs {
			if l, ok := lines[id]; ok {
				s.renewLine(c, l.b.seq, l.line, t.LeaseMs)
			}
		}
	}
	return result
}

// progress keeps what was told, and what was told before under the same claim.
func (s *Store) progress(b *batch, c *claim, line uint32, step string, progress int64) {
	if b.details {
		if value := s.o.get(detailKey(b.seq, line, progressDetail)); value != nil {
			if seq, oldStep, oldProgress := decodeProgress(value); seq == c.seq {
				if step == "" {
					step = oldStep
				}
				if progress < 0 {
					progress = oldProgress
				}
			}
		}
	}
	s.setDetail(b, line, progressDetail, encodeProgress(c.seq, step, progress))
}
