package store

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// claiming is a claim while its jobs are picked.
type claiming struct {
	*applying
	cmd    *job.Claim
	c      *claim
	result *Claimed
	choice choice
	left   int // jobs that may still be handed out
	room   payloadRoom
	begun  bool
	rows   int // the claim ends when the overlay's count of writes has reached this
}

// claimJobs carries out a claim, unless it repeats one.
func (a *applying) claimJobs(cmd job.Claim) *Claimed {
	var before *done // its completions
	if cmd.Once.Given() {
		var again *Claimed
		if again, before = a.past().claimed(&cmd.Once); again != nil {
			return again
		}
	}
	if a.meta.stopped {
		return &Claimed{}
	}
	c := &claim{seq: a.now.Seq, at: a.now.At, runner: cmd.Runner}
	c.lease = job.Lease{Seq: a.now.Seq, At: a.now.At, Ms: cmd.LeaseMs}
	a.claims.Set(c.seq, c)
	t := claiming{
		applying: a, cmd: &cmd, c: c, result: &Claimed{Claim: c.id(), Seq: c.seq, runner: c.runner},
		choice: a.queues.choice(cmd.Clients, cmd.Types), left: cmd.Max, room: payloadRoom{limit: cmd.MaxBytes},
		rows: a.o.Writes() + a.rules.claimRows,
	}
	switch cmd.Strategy {
	case job.Oldest:
		for t.takeHead(a.queues.best(a.queues.heads, t.choice), math.MaxInt) {
		}
	case job.Newest:
		for t.takeTail(a.queues.newest(t.choice, &a.o)) {
		}
	case job.Random:
		t.drawAll()
	case job.Fair:
		t.serveInTurn()
	}
	if len(c.runs) == 0 {
		a.claims.Delete(c.seq)
		return &Claimed{}
	}
	a.openClaim(c)
	t.result.LeaseMs, t.result.Runs, t.result.PayloadBytes = c.lease.Ms, c.runs, t.room.bound
	if t.result.Keyed = cmd.Once.Given(); t.result.Keyed {
		d := &done{seq: a.now.Seq, at: a.now.At}
		if before != nil {
			d.ended = before.ended
		}
		a.rememberOnce(&cmd.Once, d)
	}
	return t.result
}

// A claim takes jobs from a pending span in three steps: open decides whether the span is taken from at all,
// payloadRoom how many of its payloads fit, and handOut moves the jobs. Each strategy picks the spans, and the end of a
// span that jobs are taken from.

// open reports whether jobs of a pending span can be taken. With expired, its jobs have ended instead, because their
// expires_at has passed; with neither, the claim ends here.
func (t *claiming) open(q *queue, p part) (taken, expired bool) {
	if t.begun && t.o.Writes() >= t.rows {
		return false, false
	}
	t.begun = true
	g := p.group()
	if p.in.Late(&g.Attributes, t.now) {
		t.expire(whole(p.b, p.in))
		t.queues.place(q, &t.o)
		return false, true
	}
	if t.c.lease.Ms == 0 {
		t.c.lease.Ms = g.LeaseMs
	} else if t.cmd.LeaseMs == 0 && t.c.lease.Ms != g.LeaseMs {
		return false, false // a claim has one lease
	}
	return true, false
}

// handOut makes lines active, and reports whether the claim may continue.
func (t *claiming) handOut(q *queue, p part) (more bool) {
	c := t.c
	next := p.in.HandOut(&p.group().Attributes, t.now)
	t.result.handouts = append(t.result.handouts, handout{p.b, span{p.first, p.last, next}, q.queueName, p.b.details})
	t.move(p, next, reasonClaimed)
	if prev := len(c.runs) - 1; prev >= 0 && c.runs[prev].Batch == p.b.seq && c.runs[prev].Last+1 == p.first {
		c.runs[prev].Last = p.last
	} else {
		c.runs = append(c.runs, p.run())
	}
	t.left -= int(p.lines())
	t.queues.place(q, &t.o) // its head is another now
	return t.left > 0
}

// takeFirst hands out up to n lines from the beginning of a part of a pending span, and reports whether the claim may
// continue.
func (t *claiming) takeFirst(q *queue, p part, n int) (more bool) {
	taken, expired := t.open(q, p)
	if !taken {
		return expired
	}
	p.last = p.first + uint32(min(n, t.left, int(p.lines()))) - 1
	fit := t.room.first(t.machine, p)
	if fit == 0 {
		return false
	}
	p.last = p.first + uint32(fit) - 1
	return t.handOut(q, p)
}

// takeLast hands out lines from the end of a part of a pending span, and reports whether the claim may continue.
func (t *claiming) takeLast(q *queue, p part) (more bool) {
	taken, expired := t.open(q, p)
	if !taken {
		return expired
	}
	p.first = p.last - uint32(min(t.left, int(p.lines()))) + 1
	fit := t.room.last(t.machine, p)
	if fit == 0 {
		return false
	}
	p.first = p.last - uint32(fit) + 1
	return t.handOut(q, p)
}

// spanOf returns the span of a ready key.
func (m *machine) spanOf(ready string) part {
	_, _, end := splitReadyKey(ready)
	return whole(m.batch(end.seq), m.spanEnding(end))
}

// takeHead takes up to n jobs from the head of a queue, and reports whether the claim may continue. Nil is an empty
// choice.
func (t *claiming) takeHead(q *queue, n int) bool {
	return q != nil && t.takeFirst(q, t.spanOf(q.head), n)
}

// takeTail takes jobs from the end of a queue.
func (t *claiming) takeTail(q *queue) bool {
	return q != nil && t.takeLast(q, t.spanOf(q.findTail(&t.o)))
}

// drawAll draws a job, takes it and its neighbours to the end of its lane and then from the lane's beginning, and draws
// again.
func (t *claiming) drawAll() {
	for draw := uint64(0); ; draw++ {
		q, l, place := t.queues.samples.draw(t.choice, mix(t.seed, t.now.Seq, draw, math.MaxUint32))
		if q == nil {
			return
		}
		key, before := t.locate(l, place)
		for walk := (laneWalk{m: t.machine, l: l, at: key}); key != ""; key = walk.next() {
			for taken := false; !taken; before = 0 {
				p := t.spanOf(key)
				first, had := p.first+uint32(before), t.left
				p.first = first
				if !t.takeFirst(q, p, math.MaxInt) {
					return
				}
				n := uint32(had - t.left) // none of a span that has expired, which is gone as a whole
				taken = n == 0 || first+n > p.last
			}
		}
	}
}

// serveInTurn gives each client with jobs of the highest priority its turn, beginning after the one that was served
// last. Whole rounds are taken at once: a client that gets ten turns gets ten jobs, which touches fewer spans than one
// job ten times.
func (t *claiming) serveInTurn() {
	for t.left > 0 {
		first := t.queues.best(t.queues.heads, t.choice)
		if first == nil {
			return
		}
		priority := priorityOfRank(first.rank)
		clients := t.queues.inTurn(t.choice, priority, t.meta.served, t.left)
		turns := t.left / len(clients)
		for _, client := range clients {
			own := t.queues.choice([]string{client}, t.choice.types)
			for want := turns; want > 0; {
				q := t.queues.best(t.queues.heads, own)
				if q == nil || priorityOfRank(q.rank) != priority {
					break
				}
				had := t.left
				more := t.takeHead(q, want)
				if t.left < had { // a client that gets nothing, because the claim ends there, is the first next time
					t.meta.served = client
				}
				if !more {
					return
				}
				want -= had - t.left
			}
		}
	}
}
