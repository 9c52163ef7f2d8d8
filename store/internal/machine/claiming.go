package machine

import (
	"github.com/daybookq/daybook/job"

	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// claiming is the state of a claim while it picks jobs.
type claiming struct {
	*Applying
	cmd        *job.Claim
	c          *row.Claim
	result     *applied.Claimed
	choice     memory.Choice
	contest    *memory.Contest // among the queues of choice
	left       int             // how many more jobs may be handed out
	room       payloadRoom
	begun      bool
	rows       int                        // the claim ends when the overlay's count of writes has reached this
	touched    map[*memory.Queue]struct{} // queues from which it took jobs; nil: of one at most
	last       *memory.Queue              // the queue from which it last took jobs
	looks      int                        // the claim ends when it has looked at this many more spans
	attributes attributeReads             // the claim ends when it has read rules.ClaimBytes of attributes
	ahead      int                        // how many more spans it may read ahead
	// For Fair: the contests of single clients, and how many more pairs of client and type may be looked at.
	own   map[string]*memory.Contest
	pairs int
}

// Open reports whether a claim can take jobs of a pending span. If expired, its jobs have ended instead, because
// their expires_at has passed or their batch has ended. If neither, the claim ends here.
func (t *claiming) Open(q *memory.Queue, p row.Part) (taken, expired bool) {
	if t.begun && t.spent() {
		return false, false
	}
	t.begun = true
	t.looks--
	g := p.Group()
	t.attributes.Add(&t.Rules, p.B, g)
	if p.In.Late(&g.Attributes, t.Now) {
		t.expire(t.whole(p.B, p.In))
		t.placed(q)
		return false, true
	}
	if p.B.Submission != 0 && t.submissionEnded(p.B) {
		t.endPart(t.whole(p.B, p.In))
		t.placed(q)
		return false, true
	}
	if t.c.Lease.Ms == 0 {
		t.c.Lease.Ms = g.LeaseMs
	} else if t.cmd.LeaseMs == 0 && t.c.Lease.Ms != g.LeaseMs {
		return false, false // a claim has one lease
	}
	return true, false
}

// spent reports whether the claim has used up its budget of reads or writes.
func (t *claiming) spent() bool {
	return t.O.Writes() >= t.rows || t.looks <= 0 || t.attributes.bytes >= t.Rules.ClaimBytes
}

// placed puts a queue in its right place after some of its jobs were taken.
func (t *claiming) placed(q *memory.Queue) {
	t.AllQueues.Place(q, &t.O)
	t.Touch(q)
	t.contest.Changed(q)
	if own := t.own[q.Client]; own != nil {
		own.Changed(q)
	}
}

// Touch counts a queue from which the claim takes.
func (t *claiming) Touch(q *memory.Queue) {
	if q == t.last {
		return
	}
	if t.last != nil && t.touched == nil {
		t.touched = map[*memory.Queue]struct{}{t.last: {}}
	}
	if t.last != nil {
		if _, before := t.touched[q]; !before {
			t.touched[q] = struct{}{}
			t.rows -= t.Rules.QueueRows
		}
	}
	t.last = q
}

// handOut makes lines active, and reports whether the claim may continue.
func (t *claiming) handOut(q *memory.Queue, p row.Part) (more bool) {
	c := t.c
	next := p.In.HandOut(&p.Group().Attributes, t.Now)
	t.result.Handouts = append(t.result.Handouts, row.Handout{p.B, p.Of, row.Span{First: p.First, Last: p.Last, State: next}, q.QueueName, p.B.Details, row.ProgressOf(t.submissionOf(p.B))})
	t.move(p, next, job.ReasonClaimed)
	if prev := len(c.Runs) - 1; prev >= 0 && c.Runs[prev].Batch == p.B.Seq && c.Runs[prev].Last+1 == p.First {
		c.Runs[prev].Last = p.Last
	} else {
		c.Runs = append(c.Runs, p.Run())
	}
	t.left -= int(p.Lines())
	t.placed(q) // its head has changed
	return t.left > 0
}

// takeFirst hands out up to n lines from the beginning of a part of a pending span, and reports whether the claim may
// continue.
func (t *claiming) takeFirst(q *memory.Queue, p row.Part, n int) (more bool) {
	taken, expired := t.Open(q, p)
	if !taken {
		return expired
	}
	p.Last = p.First + uint32(min(n, t.left, int(p.Lines()))) - 1
	fit := t.room.first(t.Machine, p)
	if fit == 0 {
		return false
	}
	p.Last = p.First + uint32(fit) - 1
	return t.handOut(q, p)
}

// takeLast hands out up to n lines from the end of a part of a pending span, and reports whether the claim may
// continue.
func (t *claiming) takeLast(q *memory.Queue, p row.Part, n int) (more bool) {
	taken, expired := t.Open(q, p)
	if !taken {
		return expired
	}
	p.First = p.Last - uint32(min(n, t.left, int(p.Lines()))) + 1
	fit := t.room.last(t.Machine, p)
	if fit == 0 {
		return false
	}
	p.First = p.Last - uint32(fit) + 1
	return t.handOut(q, p)
}

// spanOf returns the span that ends at a line.
func (m *Machine) spanOf(end row.Position) row.Part {
	return m.whole(m.Batch(end.Seq), m.spanEnding(end))
}
