package client

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// readRuns reads the answer to a claim in runs. The payloads are parts of the text.
func (c *Claim) readRuns(text []byte) error {
	d := runs.NewDecoder(text)
	head, err := d.Claim()
	if err != nil {
		return err
	}
	if !head.ID.IsZero() {
		c.ID, c.LeaseMs = head.ID.String(), head.LeaseMs
	}
	for _, h := range head.Handlers {
		c.Handlers = append(c.Handlers, ClaimHandler{h.ID.String(), h.Client, h.Type, h.Kind, h.Digest.String()})
	}
	jobs := make([]Job, 0, head.Jobs)
	for range head.Runs {
		r, err := d.Run(&head)
		if err != nil {
			return err
		}
		if jobs, err = c.appendRun(jobs, &r); err != nil {
			return err
		}
	}
	c.Jobs = make([]*Job, len(jobs))
	for i := range jobs {
		c.Jobs[i] = &jobs[i]
	}
	return d.End()
}

// appendRun appends the jobs of a run. The fields that they have in common are converted once.
func (c *Claim) appendRun(jobs []Job, r *runs.Run) ([]Job, error) {
	first := c.firstOf(r)
	size := len(first.ID)
	ids := make([]byte, 0, r.N*size) // one allocation for the ids of all jobs
	for i := range r.N {
		ids = r.ID(i).AppendText(ids)
	}
	text := string(ids)
	payloads := r.Payloads()
	for i := range r.N {
		payload, err := payloads.Next()
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, first)
		j := &jobs[len(jobs)-1]
		j.ID = text[i*size : (i+1)*size]
		j.setPayload(r.First.Kind, payload)
		if i > 0 { // jobs must not share memory that a caller may change
			j.Meta, j.Attempts = maps.Clone(first.Meta), slices.Clone(first.Attempts)
			if first.Progress != nil {
				j.Progress = new(*first.Progress)
			}
		}
	}
	return jobs, nil
}

// firstOf returns the first job of a run, without its payload.
func (c *Claim) firstOf(r *runs.Run) Job {
	f := &r.First
	j := Job{
		ID: f.ID.String(), Client: f.Client, Type: f.Type, Status: f.Status.String(), RunnerID: f.Runner, ClaimID: c.ID,
		RunAttempts: f.RunAttempts, Redrives: f.Redrives, CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, TickledAt: f.TickledAt, DeadlineAt: f.DeadlineAt,
		Error: f.Error, Step: f.Step, UniqueKey: f.UniqueKey,
	}
	j.setStored(&f.Attributes)
	if !f.Batch.IsZero() {
		j.BatchID = f.Batch.String()
	}
	if f.Progress >= 0 {
		j.Progress = new(float64(f.Progress) / 1e6)
	}
	for i := range f.Attempts {
		a := &f.Attempts[i]
		j.Attempts = append(j.Attempts, Attempt{At: a.At, RunnerID: a.Runner, Code: a.Code.String(), ExitCode: a.ExitCode, Error: a.Error, Why: a.Why.String()})
	}
	return j
}

// setPayload sets a payload as the JSON document of the job shows it.
func (j *Job) setPayload(kind job.Kind, payload []byte) {
	if kind == job.WASI {
		var err error
		if j.BinaryAddr, j.InputAddr, err = job.ParseWASI(payload); err == nil {
			j.Kind = WASI
			return
		}
	}
	if j.Kind = kindIn(kind, payload); j.Kind != None {
		j.Payload = payload
	}
}

// kindIn returns the kind of a payload or output in the JSON of a document.
func kindIn(kind job.Kind, data []byte) Kind {
	switch {
	case kind == job.Nothing:
		return None
	case kind == job.Text && utf8.Valid(data):
		return Text
	case kind == job.JSON:
		return JSON
	}
	return Bytes
}
