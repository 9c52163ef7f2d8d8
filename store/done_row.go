package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// done is what a request with a key or a number did, for those who repeat it. That of a key is a row. Such rows live in
// generations, each of which is deleted as a whole, by one range deletion, when its youngest row is as old as an answer
// is kept. That of a number is its slot's row (see session_row.go).
type done struct {
	digest job.Digest
	// Of the create or claim; seq 0: there was none, or it found nothing.
	seq       uint64
	at        int64
	lines     uint32 // of a create
	batch     job.ID // the submission that a create made or added to; zero: none
	group     group  // of its first line, whose queue may be gone by now
	queueName queueName
	existing  []madeBy // its lines that made no job
	// Of the completions, in order.
	ended []endedPart
}

type madeBy struct {
	line uint32
	id   job.ID
}

// endedPart is the result of one completion but for the ids, which a repeat names itself.
type endedPart struct {
	seq     uint64
	at      int64
	all     int
	refusal job.Refusal
	results []resultRun
}

// resultRun stands for consecutive outcomes with the same result.
type resultRun struct {
	n       int
	status  job.Status
	refusal job.Refusal
}

// generationMs is how long keys go into one generation: half the time that they are kept, so that a look for a key
// looks into three, and a key takes room for a day and a half at most.
const generationMs = job.KeyLifeMs / 2

// ofSubmission is set in the number of lines of a create that made a submission or added to one. Such a create may have
// no lines.
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

// doneAt is when the request was carried out, or the last part of it.
func (d *done) doneAt() int64 {
	at := d.at
	for i := range d.ended {
		at = max(at, d.ended[i].at)
	}
	return at
}
