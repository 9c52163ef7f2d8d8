package answer

import (
	"strconv"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// WriteJSON writes the answer to a claim as one JSON document, or as NDJSON with one job per line. It leaves out job
// fields that are null.
func (call *ClaimCall) WriteJSON(p *web.Pieces) (err error) {
	p.B = append(p.B, '{')
	if call.Ended != nil {
		p.B = append(call.Ended.append(p.B), ',')
	}
	p.B = append(p.B, `"claim_id":`...)
	if call.Claimed.Claim.IsZero() {
		p.B = append(p.B, `null,"lease_ms":null`...)
	} else {
		p.B = AppendID(p.B, call.Claimed.Claim)
		p.B = append(p.B, `,"lease_ms":`...)
		p.B = appendNumber(p.B, call.Claimed.LeaseMs)
	}
	if p.B, err = AppendHandlers(p.B, call.Handlers); err != nil {
		return err
	}
	call.Fields.Sparse = true
	if call.Form == ClaimInLines {
		p.B = append(p.B, "}\n"...)
		return AppendRunPieces(p, call.Handed, &JobText{Selection: &call.Fields, Form: InLines, end: "\n"})
	}
	p.B = append(p.B, `,"jobs":[`...)
	if err := AppendRunPieces(p, call.Handed, &JobText{Selection: &call.Fields, Form: InJSON, Separator: ","}); err != nil {
		return err
	}
	p.B = append(p.B, "]}\n"...)
	return nil
}

// append appends the results of a claim's outcomes.
func (e *EndedJobs) append(b []byte) []byte {
	b = append(b, `"results":`...)
	b = AppendJobResults(b, e.Results)
	if e.ForAll {
		b = append(b, `,"ended":`...)
		b = strconv.AppendInt(b, int64(e.All), 10)
		if e.Refusal != job.Granted {
			b = append(b, `,"complete_refused":{`...)
			b = append(appendRefusal(b, e.Refusal), '}')
		}
	}
	if e.Err != nil {
		b = append(b, `,"claim_refused":{"code":`...)
		b = AppendText(b, e.Err.Code)
		b = append(b, `,"detail":`...)
		b = append(AppendText(b, e.Err.Detail), '}')
	}
	return b
}

// JobText writes the documents of a run's jobs. It makes the text of the fields that the jobs have in common once, and
// copies it for each job.
type JobText struct {
	*Selection
	Form           form
	Separator, end string // between two documents, and after each

	begun         bool // a document was written
	own           []Field
	plain         bool // own is nothing but a text
	before, after []byte
}

// begin makes the text that the jobs of a run have in common.
func (t *JobText) begin(j *job.Job) {
	before, own, after := t.split()
	t.before = t.append(t.before[:0], before, j, t.Form)
	t.own, t.plain = own, t.Sparse && len(own) > 0 && own[0].Name == ownFields[0].Name && j.Kind == job.Text
	t.after = append(t.append(t.after[:0], after, j, t.Form), '}')
}

// job appends the document of a job of the run. j has the payload, and the fields that the jobs have in common.
func (t *JobText) job(b []byte, id job.ID, j *job.Job) []byte {
	if t.begun {
		b = append(b, t.Separator...)
	}
	t.begun = true
	b = append(b, `{"job_id":"`...)
	b = id.AppendText(b)
	b = append(b, '"')
	b = append(b, t.before...)
	if t.plain && isPlain(j.Payload) {
		b = append(b, t.own[0].comma...)
		b = append(b, '"')
		b = append(b, j.Payload...)
		b = append(b, '"')
	} else {
		b = t.append(b, t.own, j, t.Form)
	}
	b = append(b, t.after...)
	return append(b, t.end...)
}

// AppendRunPieces appends the document of each job of a list of runs, and clears the runs that are written.
func AppendRunPieces(p *web.Pieces, list []runs.Run, t *JobText) error {
	for i := range list {
		r := &list[i]
		made := runBytes(r)
		t.begin(&r.First)
		payloads := r.Payloads()
		for n := range r.N {
			var err error
			if r.First.Payload, err = payloads.Next(); err != nil {
				return err
			}
			if p.B = t.job(p.B, r.ID(n), &r.First); len(p.B) < web.PieceBytes {
				continue
			}
			if err := p.Write(); err != nil {
				return err
			}
		}
		if *r = (runs.Run{}); p.Begun {
			p.Held.Shrink(min(made, p.Held.Held))
		}
	}
	return nil
}
