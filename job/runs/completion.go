package runs

import (
	"fmt"
	"math"

	"github.com/daybookq/daybook/job"
)

// Completion is the head of a section of outcomes.
type Completion struct {
	Claim  job.ID // of the jobs, unless a run names another claim
	Runner string // likewise
	// All is the outcome of all other jobs that the claim holds; nil if the section has none.
	All  *job.Outcome
	Jobs int // of all runs
	Runs int
}

// OutcomeRun is the outcomes of jobs with consecutive ids. They differ only in their outputs.
type OutcomeRun struct {
	Claim   job.ID
	Runner  string
	Outcome job.Outcome // of the first job, without its output
	N       int
	// Frame is how the outputs are separated; NoFrame: no outputs. Outcome.OutputKind is the kind of all of them.
	Frame   job.Frame
	Outputs []byte
}

// Each calls visit with the outcome of each job, until it returns an error.
func (r *OutcomeRun) Each(visit func(o job.Outcome) error) error {
	rest := r.Outputs
	for i := range r.N {
		o := r.Outcome
		o.ID = o.ID.WithLine(o.ID.Line() + i)
		if r.Frame != job.NoFrame {
			var err error
			if o.Output, rest, err = r.Frame.Next(rest); err != nil {
				return fmt.Errorf("output of job %s: %w", o.ID, err)
			}
		}
		if err := visit(o); err != nil {
			return err
		}
	}
	return nil
}

// AppendCompletion appends the head of a section of outcomes, and the output of the outcome for all other jobs. The
// caller then appends c.Runs runs.
func AppendCompletion(b []byte, c *Completion) []byte {
	w := writer(b)
	w.verb("complete")
	w.int("v", version)
	w.id("claim_id", c.Claim, job.ID{})
	w.text("runner_id", c.Runner)
	w.int("jobs", int64(c.Jobs))
	w.int("runs", int64(c.Runs))
	if c.All == nil {
		w.end()
		return w
	}
	frame := FrameOf(c.All.OutputKind, c.All.Output)
	output := frame.Append(nil, c.All.Output)
	w.outcome(c.All, frame, len(output))
	w.end()
	return append(w, output...)
}

// FrameOf returns the frame that fits an output of a kind.
func FrameOf(kind job.Kind, output []byte) job.Frame {
	if kind == job.Nothing {
		return job.NoFrame
	}
	for _, c := range output {
		if c == '\n' {
			return job.LenFrame
		}
	}
	return job.LineFrame
}

// AppendOutcomeRun appends a run of outcomes to a section.
func AppendOutcomeRun(b []byte, c *Completion, r *OutcomeRun) []byte {
	w := writer(b)
	w.verb("run")
	w.id("job_id", r.Outcome.ID, job.ID{})
	w.int("n", int64(r.N))
	w.id("claim_id", r.Claim, c.Claim)
	if r.Runner != c.Runner {
		w.text("runner_id", r.Runner)
	}
	w.outcome(&r.Outcome, r.Frame, len(r.Outputs))
	w.end()
	return append(w, r.Outputs...)
}

func (w *writer) outcome(o *job.Outcome, frame job.Frame, size int) {
	w.text("code", o.Code.String())
	w.set("exit_code", int64(o.ExitCode), int64(o.Code.DefaultExitCode()))
	if o.ProcessExit != nil {
		w.int("process_exit", *o.ProcessExit)
	}
	w.text("error", o.Error)
	w.set("delay_ms", o.DelayMs, -1)
	w.addr(&o.Result)
	w.text("log_addr", o.LogAddr)
	if frame != job.NoFrame {
		w.kind(o.OutputKind, frame)
		w.int("bytes", int64(size))
	}
}

// addr appends the address and the kind of an output that is stored elsewhere.
func (w *writer) addr(r *job.Result) {
	w.text("output_addr", r.OutputAddr)
	if r.OutputAddrKind != job.Nothing {
		w.text("output_addr_kind", r.OutputAddrKind.String())
	}
}

func (h *head) addr(r *job.Result) {
	r.OutputAddr = h.text("output_addr", job.MaxAddrBytes)
	r.OutputAddrKind = named(h, "output_addr_kind", givenKind)
	if err := r.CheckAddrKind(); err != nil {
		h.fail("%w", err)
	}
}

func (h *head) completion() (c Completion, frame job.Frame, size int) {
	h.version()
	c.Claim = h.id("claim_id", job.ID{})
	c.Runner = h.text("runner_id", job.MaxRunnerBytes)
	c.Jobs = int(h.int("jobs", 0, job.MaxRunOutcomes))
	c.Runs = int(h.int("runs", 0, int64(c.Jobs)))
	if (c.Jobs > 0) != (c.Runs > 0) {
		h.fail("%d jobs cannot be in %d runs", c.Jobs, c.Runs)
	}
	all, frame, size := h.outcome()
	switch {
	case all.Code != job.NoCode:
		if c.All = &all; c.Claim.IsZero() {
			h.fail("an outcome for all other jobs of a claim requires the field claim_id")
		}
	case h.rest == "" && c.Jobs == 0:
		h.fail("the section has no outcome")
	}
	return c, frame, size
}

func (h *head) outcomeRun(c *Completion) (r OutcomeRun, size int) {
	first := h.jobID()
	r.N = h.count(first)
	r.Claim = h.id("claim_id", c.Claim)
	r.Runner = c.Runner
	if runner := h.text("runner_id", job.MaxRunnerBytes); runner != "" {
		if runner == c.Runner {
			h.fail("field runner_id has its default; leave it out")
		}
		r.Runner = runner
	}
	r.Outcome, r.Frame, size = h.outcome()
	r.Outcome.ID = first
	if r.Outcome.Code == job.NoCode {
		h.must("code", false)
	}
	return r, size
}

// outcome reads an outcome. Its code is NoCode if the head line has none.
func (h *head) outcome() (o job.Outcome, frame job.Frame, size int) {
	o.DelayMs = -1
	if o.Code = named(h, "code", outcomeCode); o.Code == job.NoCode {
		return o, frame, 0
	}
	o.ExitCode = int(h.set("exit_code", 100, 599, int64(o.Code.DefaultExitCode())))
	if class := job.ExitCodeClass(o.ExitCode); class != o.Code {
		h.fail("field exit_code=%d does not belong to code=%s", o.ExitCode, o.Code)
	}
	if n, ok := h.optional("process_exit", math.MinInt32, math.MaxUint32); ok {
		o.ProcessExit = &n
	}
	o.Error = h.text("error", job.MaxErrorBytes)
	if o.DelayMs = h.set("delay_ms", 0, job.MaxDelayMs, -1); o.DelayMs >= 0 && o.Code != job.Retry && o.Code != job.Error {
		h.fail("field delay_ms requires code=retry or code=error")
	}
	h.addr(&o.Result)
	o.LogAddr = h.text("log_addr", job.MaxAddrBytes)
	o.OutputKind, frame = h.kind()
	if frame != job.NoFrame {
		size = int(h.int("bytes", 1, math.MaxInt32))
	}
	switch {
	case (o.OutputKind == job.Nothing) != (frame == job.NoFrame):
		h.fail("outputs have the fields kind, frame and bytes")
	case o.OutputKind == job.WASI:
		h.fail("field kind must be text, json or bytes for outputs, not %s", o.OutputKind)
	}
	return o, frame, size
}

// outcomeCode parses a code that a runner may report.
func outcomeCode(field, name string) (job.Code, error) {
	code, err := job.ParseCode(name)
	if err != nil || !code.Reported() {
		return job.NoCode, fmt.Errorf("field %s must be ok, failed, retry or error, not %q", field, shortened(name))
	}
	return code, nil
}
