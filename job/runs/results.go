package runs

import (
	"fmt"
	"math"

	"github.com/daybookq/daybook/job"
)

// Results is the head of a section of results.
type Results struct {
	// Ended is the number of jobs that got the outcome for all other jobs of a claim, or negative if the request had no
	// such outcome.
	Ended   int
	Jobs    int // of all runs
	Runs    int
	Refusal // of the outcome for all other jobs
}

// AppendResults appends the head of a section of results. The caller then appends r.Runs runs.
func AppendResults(b []byte, r *Results) []byte {
	w := writer(b)
	w.verb("results")
	w.int("v", version)
	if r.Ended >= 0 {
		w.int("ended", int64(r.Ended))
	}
	w.int("jobs", int64(r.Jobs))
	w.int("runs", int64(r.Runs))
	w.refusal(&r.Refusal)
	w.end()
	return w
}

func (h *head) results() (r Results) {
	h.version()
	ended, ok := h.optional("ended", 0, math.MaxInt32)
	if r.Ended = int(ended); !ok {
		r.Ended = -1
	}
	r.Jobs = int(h.int("jobs", 0, math.MaxInt32))
	r.Runs = int(h.int("runs", 0, int64(r.Jobs)))
	r.Refusal = h.refusal()
	switch {
	case (r.Jobs > 0) != (r.Runs > 0):
		h.fail("%d jobs cannot be in %d runs", r.Jobs, r.Runs)
	case r.Code != "" && r.Ended != 0:
		h.fail("a refused outcome for all other jobs has ended=0")
	}
	return r
}

// ResultRun is the result of outcomes of jobs with consecutive ids, in the order of the request: the jobs' status, or a
// refusal.
type ResultRun struct {
	First  job.ID
	N      int
	Status job.Status
	Refusal
}

// AppendResultRun appends a run of results.
func AppendResultRun(b []byte, r *ResultRun) []byte {
	w := writer(b)
	w.verb("run")
	w.id("job_id", r.First, job.ID{})
	w.int("n", int64(r.N))
	if r.Code == "" {
		w.text("status", r.Status.String())
	}
	w.refusal(&r.Refusal)
	w.end()
	return w
}

func (h *head) resultRun() (r ResultRun) {
	r.First = h.jobID()
	r.N = h.count(r.First)
	r.Status = named(h, "status", status)
	r.Refusal = h.refusal()
	if (r.Status == 0) != (r.Code != "") {
		h.fail("one of the fields status and code is required")
	}
	return r
}

// status parses a status. It accepts purged too, because the job of a result may be purged by now.
func status(field, name string) (job.Status, error) {
	if name == job.Purged.String() {
		return job.Purged, nil
	}
	s, err := job.ParseStatus(name)
	if err != nil {
		err = fmt.Errorf("field %s: %w", field, err)
	}
	return s, err
}
