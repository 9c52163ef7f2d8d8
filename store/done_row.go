package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// done is the result of a request with a key or a number, kept for callers that repeat the request. A key's result is a
// row. These rows live in generations. One range deletion deletes a whole generation when its youngest row has been
// kept for long enough. A number's result is in its slot's row (see session_row.go).
type done struct {
	digest job.Digest
	// Of the create or claim; seq 0: there was none, or the claim found no jobs.
	seq       uint64
	at        int64
	lines     uint32 // of a create
	batch     job.ID // the submission that a create made or added jobs to; zero: none
	group     group  // of its first line, whose queue may be deleted by now
	queueName queueName
	existing  []madeBy // its lines that did not make a job
	// Of the completions, in order.
	ended []endedPart
}

type madeBy struct {
	line uint32
	id   job.ID
}

// endedPart is the result of one completion, without the job ids, which a repeat names again.
type endedPart struct {
	seq     uint64
	at      int64
	all     int
	refusal job.Refusal
	results []resultRun
}

// resultRun is a run of consecutive outcomes with the same result.
type resultRun struct {
	n       int
	status  job.Status
	refusal job.Refusal
}

// generationMs is how long keys are added to one generation. It is half the time that they are kept. So a lookup of a
// key searches three generations, and a key takes room for a day and a half at most.
const generationMs = job.KeyLifeMs / 2

// ofSubmission is added to the number of lines of a create that made a submission or added jobs to one. Such creates
// may have no lines.
const ofSubmission = 2 * job.MaxLines

// create reports whether the request was a create.
func (d *done) create() bool { return d.lines > 0 || !d.batch.IsZero() }

func (d *done) encode(e *lsm.Encoder) {
	e.Bytes(d.digest[:])
	e.Uint(d.seq)
	if d.seq > 0 {
		e.Int(d.at)
		lines := uint64(d.lines)
		if !d.batch.IsZero() {
			lines |= ofSubmission
		}
		e.Uint(lines)
		if lines >= ofSubmission {
			e.Bytes(d.batch[:])
		}
		if lines > 0 {
			d.group.encode(e)
			e.Text(d.queueName.client)
			e.Text(d.queueName.typ)
			e.Uint(uint64(len(d.existing)))
			for _, x := range d.existing {
				e.Uint(uint64(x.line))
				e.Bytes(x.id[:])
			}
		}
	}
	e.Uint(uint64(len(d.ended)))
	for i := range d.ended {
		p := &d.ended[i]
		e.Uint(p.seq)
		e.Int(p.at)
		e.Uint(uint64(p.all))
		e.Uint(uint64(p.refusal))
		e.Uint(uint64(len(p.results)))
		for _, r := range p.results {
			e.Uint(uint64(r.n))
			e.Uint(uint64(r.status))
			e.Uint(uint64(r.refusal))
		}
	}
}

func decodeDone(d *lsm.Decoder) *done {
	r := &done{}
	copy(r.digest[:], d.Bytes())
	if r.seq = d.Uint(); r.seq > 0 {
		r.at = d.Int()
		lines := d.Uint()
		r.lines = uint32(lines &^ ofSubmission)
		if lines&ofSubmission != 0 {
			r.batch = decodeID(d)
		}
		if lines > 0 {
			r.group = decodeGroup(d, string(*d))
			r.group.cloneTexts()
			r.queueName = queueName{d.Text(), d.Text()}
			r.existing = make([]madeBy, d.Count(2))
			for i := range r.existing {
				r.existing[i].line = uint32(d.Uint())
				r.existing[i].id = decodeID(d)
			}
		}
	}
	r.ended = make([]endedPart, d.Count(5))
	for i := range r.ended {
		r.ended[i] = endedPart{seq: d.Uint(), at: d.Int(), all: int(d.Uint()), refusal: job.Refusal(d.Uint())}
		r.ended[i].results = make([]resultRun, d.Count(3))
		for k := range r.ended[i].results {
			r.ended[i].results[k] = resultRun{int(d.Uint()), job.Status(d.Uint()), job.Refusal(d.Uint())}
		}
	}
	return r
}

// doneAt is when the request, or its last part, was carried out.
func (d *done) doneAt() int64 {
	at := d.at
	for i := range d.ended {
		at = max(at, d.ended[i].at)
	}
	return at
}

// with returns a copy of d, which may be nil, with one more part. Cached records are never changed in place, because a
// command that fails half way must leave no trace.
func (d *done) with(p endedPart) *done {
	next := &done{}
	if d != nil {
		*next = *d
	}
	next.ended = append(slices.Clip(next.ended), p)
	return next
}
