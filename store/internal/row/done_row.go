package row

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
)

// Done is the result of a request with a key or a number, kept for callers that repeat the request. A key's result is a
// row. These rows live in generations. One range deletion deletes a whole generation when its youngest row has been
// kept for long enough. A number's result is in its slot's row (see session_row.go).
type Done struct {
	Digest job.Digest
	Owner  string // of the idempotency key, if it is not the one in the scope; "": that one
	// Of the create or claim; seq 0: there was none, or the claim found no jobs.
	Seq       uint64
	At        int64
	Lines     uint32 // of a create
	Batch     job.ID // the submission that a create made or added jobs to; zero: none
	Group     Group  // of its first line, whose queue may be deleted by now
	QueueName QueueName
	Existing  []MadeBy // its lines that did not make a job
	// Of the completions, in order.
	Ended []EndedPart
}

// KeyOwner counts the idempotency keys of an owner in a generation, and the bytes of their rows.
type KeyOwner struct{ Keys, Bytes uint64 }

func (o KeyOwner) Encode() []byte {
	e := make(lsm.Encoder, 0, 12)
	e.Uint(o.Keys)
	e.Uint(o.Bytes)
	return e
}

// ReadKeyOwner returns the counts of a row of an owner.
func ReadKeyOwner(r lsm.Rows, key string) (o KeyOwner) {
	if value := r.Get(key); value != nil {
		o = DecodeKeyOwner(value)
	}
	return o
}

func DecodeKeyOwner(value []byte) KeyOwner {
	d := lsm.Decoder(value)
	return KeyOwner{d.Uint(), d.Uint()}
}

type MadeBy struct {
	Line uint32
	Id   job.ID
}

// EndedPart is the result of one completion, without the job ids, which a repeat names again.
type EndedPart struct {
	Seq     uint64
	At      int64
	All     int
	Refusal job.Refusal
	Results []ResultRun
}

// ResultRun is a run of consecutive outcomes with the same result.
type ResultRun struct {
	N       int
	Status  job.Status
	Refusal job.Refusal
}

// GenerationMs is how long keys are added to one generation. It is half the time that they are kept. So a lookup of a
// key searches three generations, and the row of a key is kept for a day and a half at most.
const GenerationMs = job.KeyLifeMs / 2

// ofSubmission is added to the number of lines of a create that made a submission or added jobs to one. Such creates
// may have no lines.
const ofSubmission = 2 * job.MaxLines

// Create reports whether the request was a create.
func (d *Done) Create() bool { return d.Lines > 0 || !d.Batch.IsZero() }

func (d *Done) Encode(e *lsm.Encoder) {
	e.Bytes(d.Digest[:])
	e.Text(d.Owner)
	e.Uint(d.Seq)
	if d.Seq > 0 {
		e.Int(d.At)
		lines := uint64(d.Lines)
		if !d.Batch.IsZero() {
			lines |= ofSubmission
		}
		e.Uint(lines)
		if lines >= ofSubmission {
			e.Bytes(d.Batch[:])
		}
		if lines > 0 {
			d.Group.Encode(e)
			e.Text(d.QueueName.Client)
			e.Text(d.QueueName.Typ)
			e.Uint(uint64(len(d.Existing)))
			for _, x := range d.Existing {
				e.Uint(uint64(x.Line))
				e.Bytes(x.Id[:])
			}
		}
	}
	e.Uint(uint64(len(d.Ended)))
	for i := range d.Ended {
		p := &d.Ended[i]
		e.Uint(p.Seq)
		e.Int(p.At)
		e.Uint(uint64(p.All))
		e.Uint(uint64(p.Refusal))
		e.Uint(uint64(len(p.Results)))
		for _, r := range p.Results {
			e.Uint(uint64(r.N))
			e.Uint(uint64(r.Status))
			e.Uint(uint64(r.Refusal))
		}
	}
}

func DecodeDone(d *lsm.Decoder) *Done {
	r := &Done{}
	copy(r.Digest[:], d.Bytes())
	r.Owner = d.Text()
	if r.Seq = d.Uint(); r.Seq > 0 {
		r.At = d.Int()
		lines := d.Uint()
		r.Lines = uint32(lines &^ ofSubmission)
		if lines&ofSubmission != 0 {
			r.Batch = decodeID(d)
		}
		if lines > 0 {
			r.Group = DecodeGroup(d, string(*d))
			r.Group.CloneTexts()
			r.QueueName = QueueName{d.Text(), d.Text()}
			r.Existing = make([]MadeBy, d.Count(2))
			for i := range r.Existing {
				r.Existing[i].Line = uint32(d.Uint())
				r.Existing[i].Id = decodeID(d)
			}
		}
	}
	r.Ended = make([]EndedPart, d.Count(5))
	for i := range r.Ended {
		r.Ended[i] = EndedPart{Seq: d.Uint(), At: d.Int(), All: int(d.Uint()), Refusal: job.Refusal(d.Uint())}
		r.Ended[i].Results = make([]ResultRun, d.Count(3))
		for k := range r.Ended[i].Results {
			r.Ended[i].Results[k] = ResultRun{int(d.Uint()), job.Status(d.Uint()), job.Refusal(d.Uint())}
		}
	}
	return r
}

// DoneAt is when the request, or its last part, was carried out.
func (d *Done) DoneAt() int64 {
	at := d.At
	for i := range d.Ended {
		at = max(at, d.Ended[i].At)
	}
	return at
}

// With returns a copy of d, which may be nil, with one more part. Cached records are never changed in place, because a
// command that fails half way must leave no trace.
func (d *Done) With(p EndedPart) *Done {
	next := &Done{}
	if d != nil {
		*next = *d
	}
	next.Ended = append(slices.Clip(next.Ended), p)
	return next
}
