package client

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job/runs"
)

// ClaimRequest is a claim of a runner. RunnerID is required.
type ClaimRequest struct {
	RunnerID string `json:"runner_id"`
	Max      int    `json:"max"` // how many jobs at most, 1 to 1000; 0 means 1
	// Clients and Types restrict the queues. An empty list allows all.
	Clients  []string      `json:"clients,omitempty"`
	Types    []string      `json:"types,omitempty"`
	LeaseMs  int64         `json:"lease_ms,omitzero"`  // 0 means the lease that the jobs were created with
	Wait     time.Duration `json:"-"`                  // how long the server waits for a first job, at most a minute
	MaxBytes int64         `json:"max_bytes,omitzero"` // of all payloads; a single job may be larger; 0 means 8 MiB, the maximum
	Strategy Strategy      `json:"strategy,omitzero"`  // which jobs to claim first; "" means Oldest
	// Begins is how many of the jobs begin with the claim, in the order of Claim.Jobs. The rest begin when a tickle
	// names them. If the runner is declared lost, only runs that had begun count as attempts. nil means that all begin
	// with the claim.
	Begins *int `json:"begins,omitempty"`
	// Key is an idempotency key: see NewKey. A repeated claim returns the jobs of the first claim that it still holds.
	Key string `json:"-"`
}

// Claim is the answer to a claim: jobs that are active under one claim id and one lease.
type Claim struct {
	ID      string
	LeaseMs int64
	Jobs    []*Job
	// Handlers are the newest versions of the handlers of the jobs. Jobs without a handler add none.
	Handlers []ClaimHandler

	Received time.Time // when the first part of the answer arrived
	Replayed bool      // the server had answered the claim before, and this is the answer to a repeat
}

// HandlerOf returns the handler of a job of the claim, or nil if it has none.
func (c *Claim) HandlerOf(j *Job) *ClaimHandler {
	var of *ClaimHandler
	for i := range c.Handlers {
		h := &c.Handlers[i]
		if h.Type != j.Type {
			continue
		}
		if h.Client == j.Client {
			return h
		}
		if h.Client == "" {
			of = h
		}
	}
	return of
}

// Claim claims waiting jobs. It returns nil if none is available within Wait.
//
// When the answer is lost, Claim sends the claim again. With a Key or a number (see Numbered), the repeat returns the
// jobs of the lost answer. Without one, the repeat returns other jobs, and the jobs of the lost answer return to their
// queue when their lease ends, or immediately if the server noticed that the connection broke.
//
// A job whose payload cannot be decoded has Undecodable set; release it with Unget.
//
// If the answer cannot be read, the error is ErrUnexpectedAnswer. Claim does not repeat the request then, because that
// would claim more jobs with the same result.
func (c *Client) Claim(ctx context.Context, q ClaimRequest) (*Claim, error) {
	if q.MaxBytes == 0 {
		q.MaxBytes = transport.MaxClaimBytes // an answer of this size can be read; the default of a server may be larger
	}
	q.Max = max(q.Max, 1)
	r := post("/jobs/claim", struct {
		ClaimRequest
		WaitMs int64 `json:"wait_ms,omitzero"`
	}{q, q.Wait.Milliseconds()}, transport.Repeatable)
	r.Wait, r.Key, r.Accept = q.Wait, q.Key, runs.MediaType+", "+transport.MimeNDJSON
	a, err := c.conn.Do(ctx, c.numbered(r))
	if err != nil || a.Status == http.StatusNoContent {
		return nil, err
	}
	claim, err := decodeClaim(a)
	if err != nil {
		return nil, err
	}
	c.decodeClaimed(claim.Jobs)
	return claim, nil
}

// TickleOptions are the options of a tickle. The zero value renews the lease with its present length.
type TickleOptions struct {
	ClaimID  string   `json:"claim_id,omitzero"`  // the server refuses the tickle if another claim holds the job
	RunnerID string   `json:"runner_id,omitzero"` // the server refuses the tickle if another runner holds the job
	LeaseMs  int64    `json:"lease_ms,omitzero"`  // 0 means the present length
	Step     string   `json:"step,omitzero"`      // shown in the documents of the jobs, as is Progress
	Progress *float64 `json:"progress,omitzero"`
}

// Tickle extends the lease of a job, and returns the job's document. It returns ErrNotFound, ErrNotActive, ErrClaimLost
// or ErrRunnerDiffers if the server refuses. Tickle is repeated when the answer is lost.
func (c *Client) Tickle(ctx context.Context, id string, o TickleOptions) (*Job, error) {
	return c.jobCall(ctx, id, "/tickle", o, transport.Repeatable)
}

// jobCall posts to a route of one job. The server answers with the job's document.
func (c *Client) jobCall(ctx context.Context, id, route string, body any, repeat transport.Repeating) (*Job, error) {
	r := about(http.MethodPost, "/jobs/", id, route).With(body)
	if r.Repeat = repeat; route == "/complete" || route == "/release" {
		r = c.numbered(r)
	}
	return c.askJob(ctx, r)
}

// Held is the answer to a tickle of several jobs.
type Held struct {
	Held int            `json:"held"` // how many of the jobs are held
	Lost []problem.Lost `json:"lost"` // the rest
}

// TickleClaim extends the lease of all jobs that a claim still holds. It returns ErrClaimLost if the claim holds none;
// the *Error then names the lost jobs. TickleClaim is repeated when the answer is lost.
func (c *Client) TickleClaim(ctx context.Context, claimID string, o TickleOptions) (Held, error) {
	o.ClaimID = claimID
	return c.tickleMany(ctx, nil, o)
}

// TickleRunner extends the leases of all jobs that a runner holds. Otherwise it is like TickleClaim.
func (c *Client) TickleRunner(ctx context.Context, runnerID string, o TickleOptions) (Held, error) {
	o.RunnerID = runnerID
	return c.tickleMany(ctx, nil, o)
}

// TickleJobs extends the leases of up to 1000 jobs, named by their ids. Otherwise it is like TickleClaim.
func (c *Client) TickleJobs(ctx context.Context, ids []string, o TickleOptions) (Held, error) {
	return c.tickleMany(ctx, ids, o)
}

func (c *Client) tickleMany(ctx context.Context, ids []string, o TickleOptions) (Held, error) {
	r := post("/jobs/tickle", struct {
		JobIDs []string `json:"job_ids,omitempty"`
		TickleOptions
	}{ids, o}, transport.Repeatable)
	r.Verb = "tickle"
	return transport.Ask[Held](ctx, &c.conn, r)
}

// Outcome is how a run ended. The zero value means ok.
type Outcome struct {
	Code     string `json:"code,omitzero"`      // ok, failed, retry or error; "" means the code of ExitCode, or ok without an ExitCode
	ExitCode int    `json:"exit_code,omitzero"` // 2xx for ok, 4xx for failed, 1xx for retry, 5xx for error; 0 means the default of the code
	// ProcessExit is the exit status of a process.
	ProcessExit *int64 `json:"process_exit,omitzero"`
	OutputAddr  string `json:"output_addr,omitzero"`
	// OutputAddrKind is the kind of the blob at OutputAddr: Text, JSON or Bytes. The server answers with this kind when
	// the blob is read as the output of the job. None leaves it open.
	OutputAddrKind Kind   `json:"output_addr_kind,omitzero"`
	LogAddr        string `json:"log_addr,omitzero"` // of the text that the run printed, such as a blob; JobLog then returns it
	// Output is the job's result. With an empty OutputKind it is sent as Text if it is valid UTF-8, otherwise as Bytes,
	// and not at all if it is empty.
	Output     []byte `json:"-"`
	OutputKind Kind   `json:"-"`
	Error      string `json:"error,omitzero"`
	DelayMs    *int64 `json:"delay_ms,omitzero"` // how long a job waits after a retry or error; nil means the backoff
	// Then lists at most 100 jobs. The record that stores the outcome also creates them, if the outcome is ok or
	// failed. An outcome that is refused or repeated creates none. The jobs inherit Client, Traceparent and Meta of the
	// ended job where these are empty. Key is not used. The common outcome of all jobs of a claim must not have Then.
	Then []NewJob `json:"-"`
}

// TextOutput returns the outcome ok with a text.
func TextOutput(text string) Outcome { return Outcome{Output: []byte(text), OutputKind: Text} }

// JSONOutput returns the outcome ok with a JSON value.
func JSONOutput(value jsontext.Value) Outcome { return Outcome{Output: value, OutputKind: JSON} }
