package runs

import (
	"math"

	"github.com/daybookq/daybook/job"
)

// Claim is the head of a section of jobs.
type Claim struct {
	ID      job.ID // zero if the claim got no jobs
	Runner  string
	LeaseMs int64
	Jobs    int // of all runs
	Runs    int
	Refusal // of the claim; its outcomes were applied
	// Handlers are the handlers of the jobs. Some jobs may be without one.
	Handlers []Handler
}

// Handler names the newest version of the handler that runs some jobs of a claim.
type Handler struct {
	ID         job.ID
	Client     string // "": for all clients
	Type, Kind string
	Digest     job.DocumentDigest
}

// Refusal is the reason why a request was not carried out. The zero value means that it was.
type Refusal struct{ Code, Detail string }

// AppendClaim appends the head of a section of jobs, and a line for each handler. The caller then appends c.Runs runs.
func AppendClaim(b []byte, c *Claim) []byte {
	w := writer(b)
	w.verb("claim")
	w.int("v", version)
	w.id("claim_id", c.ID, job.ID{})
	w.text("runner_id", c.Runner)
	w.set("lease_ms", c.LeaseMs, 0)
	w.int("jobs", int64(c.Jobs))
	w.int("runs", int64(c.Runs))
	w.set("handlers", int64(len(c.Handlers)), 0)
	w.refusal(&c.Refusal)
	w.end()
	for i := range c.Handlers {
		w.handler(&c.Handlers[i])
	}
	return w
}

func (w *writer) handler(x *Handler) {
	w.verb("handler")
	w.id("handler_id", x.ID, job.ID{})
	w.text("client", x.Client)
	w.text("type", x.Type)
	w.text("kind", x.Kind)
	w.text("digest", x.Digest.String())
	w.end()
}

func (h *head) handler() (x Handler) {
	x.ID = h.id("handler_id", job.ID{})
	if x.ID.IsZero() {
		h.fail("field handler_id is missing, or is not in its place")
	}
	if x.Client = h.text("client", job.MaxNameBytes); x.Client != "" {
		if err := job.CheckName("client", x.Client); err != nil {
			h.fail("%w", err)
		}
	}
	x.Type, x.Kind = h.name("type"), h.name("kind")
	raw, ok := h.raw("digest")
	h.must("digest", ok)
	var err error
	if x.Digest, err = job.ParseDocumentDigest(raw); ok && err != nil {
		h.fail("field digest: %w", err)
	}
	return x
}

func (w *writer) refusal(r *Refusal) {
	w.text("code", r.Code)
	w.text("detail", r.Detail)
}

// maxDetailBytes bounds the detail of a refusal, which is one sentence.
const maxDetailBytes = 4 << 10

func (h *head) refusal() (r Refusal) {
	r = Refusal{h.text("code", job.MaxNameBytes), h.text("detail", maxDetailBytes)}
	if r.Code == "" && r.Detail != "" {
		h.fail("field detail requires code")
	}
	return r
}

func (h *head) claim() (c Claim, handlers int) {
	h.version()
	c.ID = h.id("claim_id", job.ID{})
	c.Runner = h.text("runner_id", job.MaxRunnerBytes)
	c.LeaseMs = h.set("lease_ms", job.MinLeaseMs, job.MaxLeaseMs, 0)
	c.Jobs = int(h.int("jobs", 0, job.MaxClaimJobs))
	c.Runs = int(h.int("runs", 0, int64(c.Jobs)))
	handlers = int(h.set("handlers", 1, job.MaxClaimJobs, 0))
	c.Refusal = h.refusal()
	switch {
	case (c.Jobs > 0) != (c.Runs > 0):
		h.fail("%d jobs cannot be in %d runs", c.Jobs, c.Runs)
	case c.ID.IsZero() && (c.Runner != "" || c.LeaseMs != 0 || c.Jobs > 0):
		h.fail("field claim_id is missing, or is not in its place")
	case c.Jobs > 0 && c.LeaseMs == 0:
		h.fail("field lease_ms is missing, or is not in its place")
	case c.Code != "" && !c.ID.IsZero():
		h.fail("a refused claim has no claim_id")
	case handlers > c.Runs:
		h.fail("%d runs cannot have %d handlers", c.Runs, handlers)
	}
	return c, handlers
}

// AppendRun appends a run of jobs that a claim has handed out, with their payloads.
func AppendRun(b []byte, c *Claim, r *Run) []byte {
	b = AppendRunHead(b, c, r)
	for _, part := range r.Parts {
		b = append(b, part...)
	}
	return b
}

// AppendRunHead appends the head of a run. The caller then appends the payloads, r.Parts.
func AppendRunHead(b []byte, c *Claim, r *Run) []byte {
	j := &r.First
	w := writer(b)
	w.verb("run")
	w.id("job_id", j.ID, job.ID{})
	w.int("n", int64(r.N))
	w.text("client", j.Client)
	w.text("type", j.Type)
	w.int("run_attempts", int64(j.RunAttempts))
	w.kind(j.Kind, r.Frame)
	if r.Frame != job.NoFrame {
		w.int("bytes", int64(r.Bytes()))
	}
	switch {
	case j.Batch.IsZero():
		w.text("batch", noBatch)
	case j.Batch != j.ID.WithLine(0):
		w.id("batch", j.Batch, job.ID{})
	}
	w.numbers(j, c.LeaseMs)
	w.set("tickled_at", j.TickledAt, c.ID.At())
	w.set("deadline_at", j.DeadlineAt, c.ID.At()+c.LeaseMs)
	w.text("unique_key", j.UniqueKey)
	w.texts(j.Traceparent, j.Meta)
	w.text("created_by", j.By)
	w.text("step", j.Step)
	w.set("progress", j.Progress, -1)
	w.text("error", j.Error)
	if n := len(j.Attempts); n > 0 {
		w.attempt(&j.Attempts[n-1], j.Error)
	}
	w.end()
	return w
}

// noBatch is the value of the field batch for jobs without a batch.
const noBatch = "none"

// batch reads the field batch. own is the batch in the jobs' ids, and the value if the field is missing.
func (h *head) batch(own job.ID) job.ID {
	raw, ok := h.raw("batch")
	if !ok {
		return own
	}
	if raw == noBatch {
		return job.ID{}
	}
	id, err := job.ParseID(raw)
	if err != nil || id == own || id.Line() != 0 {
		h.fail("field batch=%s must be %s, or the id of another batch than that of the job", shortened(raw), noBatch)
	}
	return id
}

// noBatch reads the field batch where its only value is none: the jobs belong to no batch.
func (h *head) noBatch() bool {
	raw, ok := h.raw("batch")
	if ok && raw != noBatch {
		h.fail("field batch=%s must be %s", shortened(raw), noBatch)
	}
	return ok
}

// attempt writes the newest unsuccessful attempt of a job. Its error is usually the job's error.
func (w *writer) attempt(a *job.Attempt, jobError string) {
	w.int("attempt_at", a.At)
	w.text("attempt_runner_id", a.Runner)
	w.text("attempt_code", a.Code.String())
	w.set("attempt_exit_code", int64(a.ExitCode), 0)
	w.text("attempt_why", a.Why.String())
	if a.Error != jobError {
		panic("runs: the error of a claimed job is not that of its newest attempt: " + a.Error + ", " + jobError)
	}
}

func (w *writer) kind(kind job.Kind, frame job.Frame) {
	if kind != job.Nothing {
		w.text("kind", kind.String())
	}
	if frame != job.NoFrame {
		w.text("frame", frame.String())
	}
}

func (h *head) kind() (kind job.Kind, frame job.Frame) {
	kind, frame = named(h, "kind", givenKind), named(h, "frame", givenFrame)
	return kind, frame
}

// run reads the head of a run, and returns the length of its payloads too.
func (h *head) run(c *Claim) (r Run, size int) {
	j := &r.First
	j.ID = h.jobID()
	r.N = h.count(j.ID)
	j.Client, j.Type = h.name("client"), h.name("type")
	j.RunAttempts = int(h.int("run_attempts", 0, math.MaxInt32))
	j.Kind, r.Frame = h.kind()
	if r.Frame != job.NoFrame {
		size = int(h.int("bytes", 1, math.MaxInt32))
	}
	j.Batch = h.batch(j.ID.WithLine(0))
	h.numbers(j, c.LeaseMs)
	j.UpdatedAt, j.TickledAt = c.ID.At(), h.set("tickled_at", 0, maxShownMs, c.ID.At())
	j.DeadlineAt = h.set("deadline_at", 0, maxShownMs, c.ID.At()+c.LeaseMs)
	j.UniqueKey = h.text("unique_key", job.MaxKeyBytes)
	j.Traceparent, j.Meta = h.texts()
	j.By = h.text("created_by", job.MaxByBytes)
	j.Step = h.text("step", job.MaxStepBytes)
	j.Progress = h.set("progress", 0, 1_000_000, -1)
	j.Error = h.text("error", job.MaxErrorBytes)
	h.attempt(j)
	if r.N > 1 && (j.UniqueKey != "" || len(j.Attempts) > 0) {
		h.fail("fields unique_key and attempt_at require n=1")
	}
	j.CreatedAt, j.Status, j.Claim, j.Runner = j.ID.At(), job.Active, c.ID, c.Runner
	return r, size
}

// maxShownMs bounds the times in documents, which may be the sum of a time and a lease, a time-out, or the time since a
// start.
const maxShownMs = job.MaxTimeMs + job.MaxDelayMs

func (h *head) attempt(j *job.Job) {
	at, ok := h.optional("attempt_at", 0, maxShownMs)
	if !ok {
		if j.Error != "" {
			h.fail("field attempt_at is missing, or is not in its place")
		}
		return
	}
	a := job.Attempt{At: at, Error: j.Error}
	a.Runner = h.text("attempt_runner_id", job.MaxRunnerBytes)
	a.Code = named(h, "attempt_code", func(_, name string) (job.Code, error) { return job.ParseCode(name) })
	a.ExitCode = int(h.set("attempt_exit_code", 1, 999, 0))
	a.Why = named(h, "attempt_why", job.ParseWhy)
	j.Attempts = []job.Attempt{a}
}

// givenKind and givenFrame refuse the names that a missing field already means.
func givenKind(field, name string) (job.Kind, error) {
	kind, err := job.ParseKind(field, name)
	if err == nil && kind == job.Nothing {
		err = defaulted(field, name)
	}
	return kind, err
}

func givenFrame(field, name string) (job.Frame, error) {
	frame, err := job.ParseFrame(field, name)
	if err == nil && frame == job.NoFrame {
		err = defaulted(field, name)
	}
	return frame, err
}
