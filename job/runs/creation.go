package runs

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// Creation is the head of a section of new jobs.
type Creation struct {
	// NoBatch means that the jobs belong to no batch, as if they were created one by one.
	NoBatch bool
	Jobs    int // of all runs
	Runs    int
}

// NewRun is a run of new jobs that differ only in their payloads. The server has defaults for missing attributes, and
// checks the values.
type NewRun struct {
	N            int
	Client, Type string // "": not given
	NewAttributes
	Kind job.Kind
	// Frame is how the payloads are separated; NoFrame: no payloads.
	Frame    job.Frame
	Payloads []byte
}

// AppendCreation appends the head of a section of new jobs. The caller then appends c.Runs runs.
func AppendCreation(b []byte, c *Creation) []byte {
	w := writer(b)
	w.verb("create")
	w.int("v", version)
	if c.NoBatch {
		w.text("batch", noBatch)
	}
	w.int("jobs", int64(c.Jobs))
	w.int("runs", int64(c.Runs))
	w.end()
	return w
}

// AppendNewRun appends a run of new jobs, with their payloads.
func AppendNewRun(b []byte, r *NewRun) []byte {
	w := writer(b)
	w.verb("run")
	w.int("n", int64(r.N))
	w.text("client", r.Client)
	w.text("type", r.Type)
	w.newAttributes(&r.NewAttributes)
	if r.Frame != job.NoFrame {
		w.kind(r.Kind, r.Frame)
		w.int("bytes", int64(len(r.Payloads)))
	}
	w.end()
	return append(w, r.Payloads...)
}

func (h *head) creation() (c Creation) {
	h.version()
	c.NoBatch = h.noBatch()
	c.Jobs = int(h.int("jobs", 1, job.MaxLines))
	c.Runs = int(h.int("runs", 1, int64(c.Jobs)))
	return c
}

func (h *head) newRun() (r NewRun, size int) {
	r.N = int(h.int("n", 1, job.MaxLines))
	r.Client = h.text("client", job.MaxNameBytes)
	r.Type = h.text("type", job.MaxNameBytes)
	h.newAttributes(&r.NewAttributes)
	r.Kind, r.Frame = h.kind()
	if r.Frame != job.NoFrame {
		size = int(h.int("bytes", 1, math.MaxInt32))
	}
	if (r.Kind == job.Nothing) != (r.Frame == job.NoFrame) {
		h.fail("payloads have the fields kind, frame and bytes")
	}
	return r, size
}

// Creation reads the head of a section of new jobs.
func (d *Decoder) Creation() (c Creation, err error) {
	err = d.section("create", func(h *head) (runs, jobs int) {
		c = h.creation()
		return c.Runs, c.Jobs
	})
	return c, err
}

// NewRun reads a run of new jobs.
func (d *Decoder) NewRun() (r NewRun, err error) {
	err = d.next(func(h *head) (n, size int, frame job.Frame) {
		r, size = h.newRun()
		return r.N, size, r.Frame
	}, &r.Payloads)
	return r, err
}
