package store

import "github.com/daybookq/daybook/job"

// claiming is the state of a claim while it picks jobs.
type claiming struct {
	*applying
	cmd        *job.Claim
	c          *claim
	result     *Claimed
	choice     choice
	contest    *contest // among the queues of choice
	left       int      // how many more jobs may be handed out
	room       payloadRoom
	begun      bool
	rows       int                 // the claim ends when the overlay's count of writes has reached this
	touched    map[*queue]struct{} // queues from which it took jobs; nil: of one at most
	last       *queue              // the queue from which it last took jobs
	looks      int                 // the claim ends when it has looked at this many more spans
	attributes attributeReads      // the claim ends when it has read rules.claimBytes of attributes
	ahead      int                 // how many more spans it may read ahead
	// For Fair: the contests of single clients, and how many more pairs of client and type may be looked at.
	own   map[string]*contest
	pairs int
}

// open reports whether jobs of a pending span can be taken. If expired, its jobs have ended instead, because their
// expires_at has passed or their batch has ended. If neither, the claim ends here.
func (t *claiming) open(q *queue, p part) (taken, expired bool) {
	if t.begun && t.spent() {
		return false, false
	}
	t.begun = true
	t.looks--
	g := p.group()
	t.attributes.add(&t.rules, p.b, g)
	if p.in.Late(&g.Attributes, t.now) {
		t.expire(t.whole(p.b, p.in))
		t.placed(q)
		return false, true
	}
	if p.b.submission != 0 && t.submissionEnded(p.b) {
		t.endPart(t.whole(p.b, p.in))
		t.placed(q)
		return false, true
	}
	if t.c.lease.Ms == 0 {
		t.c.lease.Ms = g.LeaseMs
	} else if t.cmd.LeaseMs == 0 && t.c.lease.Ms != g.LeaseMs {
		return false, false // a claim has one lease
	}
	return true, false
}

// spent reports whether the claim has used up its budget of reads or writes.
func (t *claiming) spent() bool {
	return t.o.Writes() >= t.rows || t.looks <= 0 || t.attributes.bytes >= t.rules.claimBytes
}

// placed puts a queue in its right place after some of its jobs were taken.
func (t *claiming) placed(q *queue) {
	t.queues.place(q, &t.o)
	t.touch(q)
	t.contest.changed(q)
	if own := t.own[q.client]; own != nil {
		own.changed(q)
	}
}

// touch counts a queue from which the claim takes.
func (t *claiming) touch(q *queue) {
	if q == t.last {
		return
	}
	if t.last != nil && t.touched == nil {
		t.touched = map[*queue]struct{}{t.last: {}}
	}
	if t.last != nil {
		if _, before := t.touched[q]; !before {
			t.touched[q] = struct{}{}
			t.rows -= t.rules.queueRows
		}
	}
	t.last = q
}

// handOut makes lines active, and reports whether the claim may continue.
func (t *claiming) handOut(q *queue, p part) (more bool) {
	c := t.c
	next := p.in.HandOut(&p.group().Attributes, t.now)
	t.result.handouts = append(t.result.handouts, handout{p.b, p.of, span{p.first, p.last, next}, q.queueName, p.b.details, progressOf(t.submissionOf(p.b))})
	t.move(p, next, reasonClaimed)
	if prev := len(c.runs) - 1; prev >= 0 && c.runs[prev].Batch == p.b.seq && c.runs[prev].Last+1 == p.first {
		c.runs[prev].Last = p.last
	} else {
		c.runs = append(c.runs, p.run())
	}
	t.left -= int(p.lines())
	t.placed(q) // its head has changed
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

// takeLast hands out up to n lines from the end of a part of a pending span, and reports whether the claim may
// continue.
func (t *claiming) takeLast(q *queue, p part, n int) (more bool) {
	taken, expired := t.open(q, p)
	if !taken {
		return expired
	}
	p.first = p.last - uint32(min(n, t.left, int(p.lines()))) + 1
	fit := t.room.last(t.machine, p)
	if fit == 0 {
		return false
	}
	p.first = p.last - uint32(fit) + 1
	return t.handOut(q, p)
}

// spanOf returns the span that ends at a line.
func (m *machine) spanOf(end position) part {
	return m.whole(m.batch(end.seq), m.spanEnding(end))
}
