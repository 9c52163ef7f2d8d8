package runs

import (
	"fmt"

	"github.com/daybookq/daybook/job"
)

// MediaType is the media type of this format.
const MediaType = "application/vnd.daybook.runs"

// Run is a sequence of jobs with consecutive ids whose documents differ only in id and payload.
type Run struct {
	First job.Job // the document of the first job, without its payload
	N     int     // number of jobs
	Frame job.Frame
	// Parts are the framed payloads. No payload is split between two parts.
	Parts [][]byte
}

// ID returns the id of job i of the run, counted from 0.
func (r *Run) ID(i int) job.ID { return r.First.ID.WithLine(r.First.ID.Line() + i) }

// Follows reports whether a run that begins with the document of j can continue r: the ids count up, and the documents
// differ only in id and payload. A job with a unique key or a history never shares a run.
func (r *Run) Follows(j *job.Job) bool {
	f := &r.First
	return j.ID == r.ID(r.N) && f.Attributes == j.Attributes && f.Client == j.Client && f.Type == j.Type && f.Batch == j.Batch &&
		f.RunAttempts == j.RunAttempts && f.Redrives == j.Redrives && f.TickledAt == j.TickledAt && f.DeadlineAt == j.DeadlineAt &&
		f.Step == j.Step && f.Progress == j.Progress && f.Error == j.Error && len(f.Attempts)+len(j.Attempts) == 0 && f.UniqueKey == "" && j.UniqueKey == ""
}

// Of groups documents of jobs that one claim holds, with their payloads, into runs.
func Of(docs []job.Job) (list []Run) {
	for i := range docs {
		doc := &docs[i]
		frame := FrameOf(doc.Kind, doc.Payload)
		if n := len(list); n == 0 || list[n-1].Frame != frame || !list[n-1].Follows(doc) {
			list = append(list, Run{First: *doc, Frame: frame})
			list[n].First.Payload = nil
			if frame != job.NoFrame {
				list[n].Parts = make([][]byte, 1)
			}
		}
		r := &list[len(list)-1]
		if r.N++; frame != job.NoFrame {
			r.Parts[0] = frame.Append(r.Parts[0], doc.Payload)
		}
	}
	return list
}

// Jobs returns the number of jobs in a list of runs.
func Jobs(list []Run) (n int) {
	for i := range list {
		n += list[i].N
	}
	return n
}

// Documents returns the documents of all jobs of a list of runs.
func Documents(list []Run) (docs []job.Job, err error) {
	docs = make([]job.Job, 0, Jobs(list))
	for i := range list {
		if docs, err = list[i].Documents(docs); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// Bytes returns the length of the framed payloads.
func (r *Run) Bytes() (n int) {
	for _, part := range r.Parts {
		n += len(part)
	}
	return n
}

// Payloads returns a reader that starts at the first payload.
func (r *Run) Payloads() Payloads { return Payloads{frame: r.Frame, parts: r.Parts} }

// Payloads reads framed payloads one after another.
type Payloads struct {
	frame job.Frame
	part  []byte
	parts [][]byte
}

// Next returns the next payload, which shares memory with the run. Without a frame, it is nil.
func (p *Payloads) Next() (payload []byte, err error) {
	for len(p.part) == 0 && len(p.parts) > 0 {
		p.part, p.parts = p.parts[0], p.parts[1:]
	}
	payload, p.part, err = p.frame.Next(p.part)
	return payload[:len(payload):len(payload)], err
}

// Documents appends the documents of the run's jobs to docs.
func (r *Run) Documents(docs []job.Job) ([]job.Job, error) {
	payloads := r.Payloads()
	for i := range r.N {
		payload, err := payloads.Next()
		if err != nil {
			return docs, fmt.Errorf("payload of job %s: %w", r.ID(i), err)
		}
		docs = append(docs, r.First)
		doc := &docs[len(docs)-1]
		doc.ID, doc.Payload = r.ID(i), payload
	}
	return docs, nil
}
