package client

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// newRun returns the run of a single job, without its payload, and the payload. It reports false if the job cannot be
// created in runs, or if the server would refuse it: a separate request then returns the reason.
func (n *NewJob) newRun() (r runs.NewRun, payload []byte, ok bool) {
	a := &n.Attributes
	if r.Kind, payload, ok = n.stored(); !ok || a.OnComplete != nil {
		return r, nil, false
	}
	r.N, r.Client, r.Type = 1, n.Client, n.Type
	r.NewAttributes, ok = a.inRun()
	return r, payload, ok
}

// stored returns the kind and payload with which the server stores the job. It reports false if the server cannot.
func (n *NewJob) stored() (kind job.Kind, payload []byte, ok bool) {
	if n.BinaryAddr != "" {
		return job.WASI, job.AppendWASI(nil, n.BinaryAddr, n.InputAddr), len(n.Payload) == 0 && (n.Kind == None || n.Kind == WASI)
	}
	if n.InputAddr != "" {
		return kind, nil, false
	}
	switch given := n.Kind.Of(n.Payload); given {
	case Text:
		return job.Text, n.Payload, utf8.Valid(n.Payload)
	case Bytes:
		return job.Bytes, n.Payload, true
	case None:
		return job.Nothing, nil, true
	case JSON:
		value, err := json.Marshal(jsontext.Value(n.Payload)) // a request for a single job is encoded in this way
		if err != nil {
			return kind, nil, false
		}
		payload, shown, err := content(value, nil)
		kind = map[Kind]job.Kind{None: job.Nothing, Text: job.Text, JSON: job.JSON}[shown]
		return kind, payload, err == nil
	}
	return kind, nil, false
}

// appendRuns appends creates as a section in runs. It groups creates with equal attributes, so it changes their order.
func appendRuns(b []byte, creates []*joinedCreate) []byte {
	slices.SortStableFunc(creates, func(x, y *joinedCreate) int { return cmp.Compare(x.head, y.head) })
	list := make([]runs.NewRun, 0, 1)
	for i, own := range creates {
		if i == 0 || own.head != creates[i-1].head {
			list = append(list, own.run)
		} else {
			list[len(list)-1].N++
		}
	}
	b = runs.AppendCreation(b, &runs.Creation{NoBatch: true, Jobs: len(creates), Runs: len(list)})
	var payloads []byte
	for i := range list {
		r := &list[i]
		same := creates[:r.N]
		creates = creates[r.N:]
		if r.Kind != job.Nothing {
			r.Frame = job.LineFrame
			if slices.ContainsFunc(same, func(own *joinedCreate) bool { return bytes.IndexByte(own.payload, '\n') >= 0 }) {
				r.Frame = job.LenFrame
			}
			payloads = payloads[:0]
			for _, own := range same {
				payloads = r.Frame.Append(payloads, own.payload)
			}
			r.Payloads = payloads
		}
		b = runs.AppendNewRun(b, r)
	}
	return b
}

// headOf returns a text that is the same for jobs that may share a run.
func headOf(r *runs.NewRun) string {
	return string(append(runs.AppendNewRun(nil, r), byte(r.Kind)))
}

const _ = uint(math.MaxUint8 - int(job.WASI)) // a kind fits into a byte

// jobDefaults are the attributes of jobs that are created without them.
type jobDefaults struct {
	Priority    int   `json:"priority"`
	MaxAttempts int   `json:"max_attempts"`
	LeaseMs     int64 `json:"lease_ms"`
}

// created returns the document of a job that was created in a stream.
func (n *NewJob) created(own *joinedCreate, a joinedAnswer) *Job {
	id, d := a.id, a.defaults
	j := &Job{
		ID: id.String(), Client: n.Client, Type: n.Type, Status: "pending", Priority: d.Priority, BinaryAddr: n.BinaryAddr, InputAddr: n.InputAddr,
		MaxAttempts: d.MaxAttempts, LeaseMs: d.LeaseMs, RunAt: a.runAt, CreatedAt: id.At(), UpdatedAt: id.At(),
	}
	j.setAttributes(&n.Attributes)
	if j.Client == "" {
		j.Client = job.DefaultName
	}
	if j.Type == "" {
		j.Type = job.DefaultName
	}
	if a.runAt > 0 {
		j.Status = "deferred"
	}
	switch own.run.Kind {
	case job.WASI:
		j.Kind = WASI
	case job.Text, job.JSON, job.Bytes:
		j.Kind, j.Payload = Kind(own.run.Kind.String()), append([]byte{}, own.payload...)
	}
	return j
}
