package store

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
)

// claiming is a claim while its jobs are being picked.
type claiming struct {
	s      *Store
	cmd    *job.Claim
	c      *claim
	result *Claimed
	choice choice
	left   int // jobs
	room   payloadRoom
	begun  bool
	rows   int // what the overlay's count of writes may reach before it ends
}

func (s *Store) applyClaim(cmd job.Claim) *Claimed {
	var before *done // its completions
	if cmd.Once.Given() {
		var again *Claimed
		if again, before = s.past().claimed(&cmd.Once); again != nil {
			return again
		}
	}
	if s.meta.stopped {
		return &Claimed{}
	}
	c := &claim{seq: s.now.Seq, at: s.now.At, runner: cmd.Runner}
	c.lease = job.Lease{Seq: s.now.Seq, At: s.now.At, Ms: cmd.LeaseMs}
	s.claims.set(c.seq, c)
	t := claiming{
		s: s, cmd: &cmd, c: c, result: &Claimed{Claim: c.id(), Seq: c.seq, runner: c.runner},
		choice: s.queues.choice(cmd.Clients, cmd.Types), left: cmd.Max, room: payloadRoom{limit: cmd.MaxBytes},
		rows: s.o.writes + s.rules.claimRows,
	}
	switch cmd.Strategy {
	case job.Oldest:
		for t.takeHead(s.queues.best(s.queues.heads, t.choice), math.MaxInt) {
		}
	case job.Newest:
		for t.takeTail(s.queues.newest(t.choice, &s.o)) {
		}
	case job.Random:
		t.drawAll()
	case job.Fair:
		t.serveInTurn()
	}
	if len(c.runs) == 0 {
		s.claims.del(c.seq)
		return &Claimed{}
	}
	s.openClaim(c)
	t.result.LeaseMs, t.result.Runs, t.result.PayloadBytes = c.lease.Ms, c.runs, t.room.bound
	if t.result.Keyed = cmd.Once.Given(); t.result.Keyed {
		d := &done{seq: s.now.Seq, at: s.now.At}
		if before != nil {
			d.ended = before.ended
		}
		s.rememberOnce(&cmd.Once, d)
	}
	return t.result
}

// takeHead takes up to n jobs from the head of a queue, and reports whether the claim may go on. Nil is an empty choice.
func (t *claiming) takeHead(q *queue, n int) bool {
	if q == nil {
		return false
	}
	_, _, end := splitReadyKey(q.head)
	sp := t.s.spanEnding(end.seq, end.line)
	return t.take(q, end.seq, sp, sp.first, n, false)
}

// takeTail takes jobs from the end of a queue.
func (t *claiming) takeTail(q *queue) bool {
	if q == nil {
		return false
	}
	_, _, end := splitReadyKey(q.findTail(&t.s.o))
	sp := t.s.spanEnding(end.seq, end.line)
	first := sp.first
	if n := uint32(t.left); sp.last-sp.first >= n {
		first = sp.last - n + 1
	}
	return t.take(q, end.seq, sp, first, math.MaxInt, true)
}

// drawAll draws a job, takes it and its neighbours to the end of its lane and then from the lane's beginning, and draws again.
func (t *claiming) drawAll() {
	s := t.s
	for draw := uint64(0); ; draw++ {
		q, l, place := s.queues.samples.draw(t.choice, mix(s.seed, s.now.Seq, draw, math.MaxUint32))
		if q == nil {
			return
		}
		key, before := s.locate(l, place)
		for walk := (laneWalk{s: s, l: l, at: key}); key != ""; key = walk.next() {
			_, _, end := splitReadyKey(key)
			for taken := false; !taken; before = 0 {
				sp := s.spanEnding(end.seq, end.line)
				had := t.left
				if !t.take(q, end.seq, sp, sp.first+uint32(before), math.MaxInt, false) {
					return
				}
				n := int64(had - t.left) // none of a span that has expired, which is gone as a whole
				taken = n == 0 || int64(sp.first)+before+n > int64(end.line)
			}
		}
	}
}

// serveInTurn gives each client with jobs of the highest priority its turn, beginning after the one that was served last. Whole rounds
// are taken at once: who gets ten turns gets ten jobs, which touches fewer spans than one job ten times.
func (t *claiming) serveInTurn() {
	s := t.s
	for t.left > 0 {
		first := s.queues.best(s.queues.heads, t.choice)
		if first == nil {
			return
		}
		priority := priorityOfRank(first.rank)
		clients := s.queues.inTurn(t.choice, priority, s.meta.served, t.left)
		turns := t.left / len(clients)
		for _, client := range clients {
			own := s.queues.choice([]string{client}, t.choice.types)
			for want := turns; want > 0; {
				q := s.queues.best(s.queues.heads, own)
				if q == nil || priorityOfRank(q.rank) != priority {
					break
				}
				had := t.left
				more := t.takeHead(q, want)
				if t.left < had { // who gets nothing, since the claim ends there, is the first next time
					s.meta.served = client
				}
				if !more {
					return
				}
				want -= had - t.left
			}
		}
	}
}

// inTurn returns up to n clients that have jobs of a priority, by name, from the one after last on and round to it.
func (qs *queues) inTurn(c choice, priority, last string, n int) (clients []string) {
	p := ^binary.BigEndian.Uint32([]byte(priority))
	if len(c.clients) > 0 { // few, and by name
		names := slices.Clone(c.clients)
		slices.Sort(names)
		names = slices.Compact(names)
		at, found := slices.BinarySearch(names, last)
		if found {
			at++
		}
		for _, name := range append(names[at:len(names):len(names)], names[:at]...) {
			q := qs.best(qs.heads, qs.choice([]string{name}, c.types))
			if q != nil && priorityOfRank(q.rank) == priority && len(clients) < n {
				clients = append(clients, name)
			}
		}
		return clients
	}
	next := func(after string) (client string, ok bool) {
		if len(c.types) == 0 {
			return qs.samples.nextClient(p, after, "")
		}
		for _, typ := range c.types {
			if found, there := qs.samples.nextClient(p, after, typ); there && (!ok || found < client) {
				client, ok = found, true
			}
		}
		return client, ok
	}
	for client, ok := next(last); ok && len(clients) < n; client, ok = next(client) {
		clients = append(clients, client)
	}
	for client, ok := next(""); ok && client <= last && len(clients) < n; client, ok = next(client) {
		clients = append(clients, client)
	}
	return clients
}

// take hands out lines of the pending span sp of a batch, from first on, or as many as fit before its end when they are taken from there.
// It takes n at most, and reports whether the claim may go on. Lines that should have been started by now end instead.
func (t *claiming) take(q *queue, seq uint64, sp span, first uint32, n int, fromEnd bool) (more bool) {
	s, c := t.s, t.c
	if t.begun && s.o.writes >= t.rows {
		return false
	}
	t.begun = true
	b := s.batch(seq)
	g := b.group(first)
	if sp.Late(&g.Attributes, s.now) {
		s.expireSpan(b, sp)
		s.queues.place(q, &s.o)
		return true
	}
	if c.lease.Ms == 0 {
		c.lease.Ms = g.LeaseMs
	} else if t.cmd.LeaseMs == 0 && c.lease.Ms != g.LeaseMs {
		return false // a claim has one lease
	}
	n = min(n, t.left, int(sp.last-first)+1)
	fit := t.room.take(s, b, first, n, len(c.runs) == 0, fromEnd)
	if fit == 0 {
		return false
	}
	if fromEnd {
		first = sp.last - uint32(fit) + 1
	}
	end := first + uint32(fit) - 1
	next := sp.HandOut(&g.Attributes, s.now)
	t.result.handouts = append(t.result.handouts, handout{b, span{first, end, next}, q.client, q.typ, b.details})
	s.move(b, sp, first, end, next, claimed)
	if prev := len(c.runs) - 1; prev >= 0 && c.runs[prev].Batch == seq && c.runs[prev].Last+1 == first {
		c.runs[prev].Last = end
	} else {
		c.runs = append(c.runs, Run{seq, first, end})
	}
	t.left -= fit
	s.queues.place(q, &s.o) // its head is another now
	return t.left > 0
}

// payloadRoom counts the payload bytes of a claim against its limit. As long as even the longest payloads would fit nothing is
// looked up; then what has been taken is measured once, and all that follows.
type payloadRoom struct {
	limit int64
	bound int64 // no more than this has been taken
	taken []Run // while bound is all that is known
	exact bool
	sizes pageSizes // of the page that was measured last
}

// take returns how many of n lines, from first on or from the last of them back, still fit. One line always does when it is the first of
// all.
func (p *payloadRoom) take(s *Store, b *batch, first uint32, n int, one, fromEnd bool) int {
	last := first + uint32(n) - 1
	if !p.exact {
		if bound := p.bound + int64(n)*int64(b.longest); bound <= p.limit {
			p.bound = bound
			p.taken = append(p.taken, Run{b.seq, first, last})
			return n
		}
		p.exact, p.bound = true, 0
		for _, r := range p.taken {
			p.sizes.each(&s.o, s.batch(r.Batch), r.First, r.Last, func(size int64) bool {
				p.bound += size
				return true
			})
		}
	}
	fit := 0
	fits := func(size int64) bool {
		if p.bound+size <= p.limit || one && fit == 0 {
			p.bound += size
			fit++
			return true
		}
		return false
	}
	if !fromEnd {
		p.sizes.each(&s.o, b, first, last, fits)
		return fit
	}
	sizes := make([]int64, 0, n)
	p.sizes.each(&s.o, b, first, last, func(size int64) bool {
		sizes = append(sizes, size)
		return true
	})
	for i := n - 1; i >= 0 && fits(sizes[i]); i-- {
	}
	return fit
}
