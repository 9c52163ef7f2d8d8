package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// tickSpanRows is about how many rows move a span: up to three spans and their index rows. A tick stops when those it moved and
// the details it wrote come to rules.commandRows, so that a hundred thousand leases that run out together do not hold up the claims
// and completions behind them. What is left is still due, and the next tick goes on there: the timer rows are the position, and
// none other is kept.
const tickSpanRows = 8

// tick lets what is due happen, in the order of the times. Whether something is due is decided by the command's time when its
// row is looked at, never by whether a tick came.
func (s *Store) tick(t job.Tick) {
	s.due = s.now.At
	if t.AsOf > 0 {
		s.due = min(s.due, t.AsOf)
	}
	sweeps, budget := s.rules.sweepRows, s.rules.commandRows
	if t.Rows > 0 {
		sweeps, budget = t.Rows, t.Rows
	}
	for ahead := 0; budget > 0; ahead-- {
		key := s.timers.first(&s.o)
		if key == "" {
			return
		}
		at, kind, a, b, line := splitTimerKey(key)
		if at > s.due {
			return
		}
		if ahead <= 0 {
			ahead = s.prefetchDue(budget / tickSpanRows)
		}
		switch kind {
		case runAtTimer:
			s.promote(a, line)
			budget -= tickSpanRows
		case claimTimer:
			budget -= s.expire(a, budget)
		case jobLeaseTimer:
			s.expireLine(a, b, line)
			budget -= tickSpanRows
		case purgeTimer:
			batch, sp := s.batch(a), s.spanEnding(a, line)
			s.purge(batch, sp, sp.first, sp.last)
			budget -= tickSpanRows
		case expireTimer:
			s.expireSpan(s.batch(a), s.spanEnding(a, line))
			budget -= tickSpanRows
		case timeoutTimer:
			n := s.timeOut(a, line)
			budget -= tickSpanRows + n
		case sweepTimer:
			if sweeps <= 0 {
				return // the rest is for the next tick
			}
			n := s.sweepOn(a, min(budget, sweeps))
			sweeps -= n
			budget -= n
		case onceTimer:
			s.forgetGeneration(uint32(a))
			s.dropTimer(key)
			budget -= tickSpanRows
		case runnerTimer:
			s.checkIdle(runnerOfTimer(key))
			budget -= tickSpanRows
		case sessionTimer:
			budget -= s.expireSession(key, a)
		}
	}
}

// prefetchDue reads what up to so many of the next timers concern, as far as their keys are at hand, and returns their number.
func (s *Store) prefetchDue(most int) int {
	keys := s.timers.keys[:max(1, min(len(s.timers.keys), most))]
	var places []position
	for _, key := range keys {
		at, kind, seq, _, line := splitTimerKey(key)
		if at > s.due {
			break
		}
		switch kind {
		case runAtTimer, purgeTimer, expireTimer, timeoutTimer:
			places = append(places, position{seq, line})
		}
	}
	if len(places) > 1 {
		slices.SortFunc(places, comparePositions)
		s.prefetch(slices.Compact(places)) // a span may have two timers
	}
	return len(keys)
}

// promote makes a deferred span pending.
func (s *Store) promote(seq uint64, line uint32) {
	b, sp := s.batch(seq), s.spanEnding(seq, line)
	s.move(b, sp, sp.first, sp.last, sp.Due(s.now), due)
}

// expire abandons what a claim holds, as far as budget goes, and returns about how many rows that wrote.
func (s *Store) expire(seq uint64, budget int) (rows int) {
	c := s.claim(seq)
	if deadline := c.lease.Deadline(&s.runner(c.runner).promise, s.meta.graceAt); deadline > s.due {
		s.retime(c, deadline)
		return tickSpanRows
	}
	var parts []Run // of lines without a lease of their own
	for _, r := range c.runs {
		s.eachIfThere(r, func(b *batch, sp span, first, last uint32) {
			if sp.Status == job.Active && sp.Claim == c.seq {
				parts = s.withoutOverride(parts, c, Run{b.seq, first, last})
			}
		})
	}
	for i, r := range parts {
		s.abandon(r, abandoned, abandonedText)
		rows += tickSpanRows + r.Lines() // a line has its history
		if rows >= budget && i < len(parts)-1 {
			return rows
		}
	}
	s.retime(c, 0)
	return rows + tickSpanRows
}

// withoutOverride appends the parts of r whose lines have no lease of their own.
func (s *Store) withoutOverride(parts []Run, c *claim, r Run) []Run {
	first := r.First
	if c.jobLeases > 0 {
		s.o.scan(jobLeaseKey(c.seq, r.Batch, r.First), after(jobLeaseKey(c.seq, r.Batch, r.Last)), func(key string, _ []byte) bool {
			_, _, line := splitJobLeaseKey(key)
			if line > first {
				parts = append(parts, Run{r.Batch, first, line - 1})
			}
			first = line + 1
			return true
		})
	}
	if first <= r.Last {
		parts = append(parts, Run{r.Batch, first, r.Last})
	}
	return parts
}

// expireLine abandons a job whose own lease ran out.
func (s *Store) expireLine(claimSeq, seq uint64, line uint32) {
	c := s.claim(claimSeq)
	key := jobLeaseKey(claimSeq, seq, line)
	o := decodeJobLease(s.o.get(key))
	if deadline := o.lease.Under(c.lease).Deadline(&s.runner(c.runner).promise, s.meta.graceAt); deadline > s.due {
		s.retimeLine(c, &o, seq, line, deadline)
		s.o.set(key, o.encode())
		return
	}
	s.abandon(Run{seq, line, line}, abandoned, abandonedText)
}

// timeOut abandons active lines that have run too long, and returns their number. Where runners could not tell anything for a while, they
// have the time of a lease to.
func (s *Store) timeOut(seq uint64, last uint32) int {
	b, sp := s.batch(seq), s.spanEnding(seq, last)
	g := b.group(last)
	if next, ok := sp.Extend(&g.Attributes, s.meta.graceAt, s.due); ok {
		s.move(b, sp, sp.first, sp.last, next, graced)
		return 0
	}
	s.abandon(Run{seq, sp.first, sp.last}, timedOut, timedOutText)
	return int(sp.last-sp.first) + 1
}

// expireSpan ends waiting lines that should have been started by now.
func (s *Store) expireSpan(b *batch, sp span) {
	g := b.group(sp.first)
	s.move(b, sp, sp.first, sp.last, sp.Expire(s.now), expired)
	s.retire(b, g, sp.first, sp.last, job.Cancelled)
}

// abandonedText is the error that the history shows for a run that nobody ended.
const abandonedText = "nobody tickled it within its lease"

// timedOutText is that of a run that went on too long.
const timedOutText = "it ran longer than its timeout_ms"

// abandon takes active lines, which lie in one span, from their claim.
func (s *Store) abandon(r Run, why reason, text string) {
	b, sp := s.batch(r.Batch), s.spanAt(r.Batch, r.First)
	g := b.group(r.First)
	next := sp.Abandon(&g.Attributes, s.now)
	s.remember(b, r.First, r.Last, &sp.State, job.Attempt{At: s.now.At, Runner: s.claim(sp.Claim).runner, Error: text, Why: job.Abandoned})
	s.move(b, sp, r.First, r.Last, next, why)
	s.retire(b, g, r.First, r.Last, next.Status)
	s.takeBack(b, r.First, r.Last, &next)
}

// purge forgets terminal lines of sp: they become a hole in their batch. Pages go when all of their lines have gone, the batch
// when all of its have.
func (s *Store) purge(b *batch, sp span, first, last uint32) {
	s.forgetJobs(b, sp, first, last, purged)
}

// forgetJobs makes lines of sp a hole in their batch, whatever they were.
func (s *Store) forgetJobs(b *batch, sp span, first, last uint32, why reason) {
	if b.unique {
		s.dropKeys(b, first, last)
	}
	s.move(b, sp, first, last, job.State{Status: job.Purged}, why)
	if b.details {
		s.dropDetails(b, first, last)
	}
	s.dropPages(b, first, last)
	s.dropGone(b)
}

// dropGone forgets a batch of which nothing is left.
func (s *Store) dropGone(b *batch) {
	if b.counts[job.Purged] == int64(b.lines) {
		for _, g := range b.groups { // each is one span by now
			s.o.del(lineKey(spanTable, b.seq, g.last))
			s.spans.del(cachedSpan{b.seq, span{last: g.last}})
		}
		s.o.del(seqKey(batchTable, b.seq))
		s.o.del(seqKey(countsTable, b.seq))
		b.gone = true
		s.batches.del(b.seq)
	}
}

// maxPointDeletes bounds the details that dropDetails deletes one by one. Below it a range deletion would be shorter but dearer:
// each that Pebble holds in memory slows all reads, and purging job by job makes very many.
const maxPointDeletes = 1000

// dropDetails deletes what is kept for lines first … last.
func (s *Store) dropDetails(b *batch, first, last uint32) {
	from, to := detailKey(b.seq, first, 0), detailKey(b.seq, last+1, 0)
	var keys []string
	s.o.scan(from, to, func(key string, _ []byte) bool {
		keys = append(keys, key)
		return len(keys) <= maxPointDeletes
	})
	if len(keys) > maxPointDeletes {
		s.o.cut(from, to)
		return
	}
	for _, key := range keys {
		s.o.del(key)
	}
}
