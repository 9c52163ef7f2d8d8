package client

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ClaimRequest is a claim of a runner. RunnerID must be given.
type ClaimRequest struct {
	RunnerID string
	Max      int // 1 … 1000; 0 stands for 1
	// Clients and Types restrict the queues; empty lists allow all.
	Clients, Types []string
	LeaseMs        int64         // 0: what the jobs were created with
	Wait           time.Duration // for a first job, at most a minute
	MaxBytes       int64         // of payload, but for one job; 0 stands for 8 MiB, the most
	Strategy       string        // oldest, newest, random or fair; "" stands for oldest
	// Key is an idempotency key: see NewKey. A repeated claim returns what is still held under it.
	Key string

	number *held // of a Worker's claim that may be made again
}

// Claim is what was handed out: jobs that are active now under one id and one lease.
type Claim struct {
	ID      string
	LeaseMs int64
	Jobs    []*Job

	received time.Time // when the answer began to come
	replayed bool      // the answer is to a repeat, and was given before
}

type claimBody struct {
	RunnerID string   `json:"runner_id"`
	Max      int      `json:"max"`
	Clients  []string `json:"clients,omitempty"`
	Types    []string `json:"types,omitempty"`
	LeaseMs  int64    `json:"lease_ms,omitzero"`
	WaitMs   int64    `json:"wait_ms,omitzero"`
	MaxBytes int64    `json:"max_bytes,omitzero"`
	Strategy string   `json:"strategy,omitzero"`
}

// Claim hands out waiting jobs, and returns nil when there are none, after Wait. When the answer is lost the claim is
// made again: with a Key or a number (see Numbered) it returns what the lost one handed out, and without one that
// returns to its queue when its lease runs out, or at once when the server saw the connection break. An answer that
// came and cannot be read is ErrUnexpectedAnswer, and the claim is not made again: that would take more jobs the same
// way.
func (c *Client) Claim(ctx context.Context, q ClaimRequest) (*Claim, error) {
	if q.MaxBytes == 0 {
		q.MaxBytes = maxClaimBytes // what this client can surely read, whatever a server hands out unasked
	}
	r, err := post("/jobs/claim", claimBody{
		q.RunnerID, max(q.Max, 1), q.Clients, q.Types, q.LeaseMs, q.Wait.Milliseconds(), q.MaxBytes, q.Strategy,
	}, repeatable)
	if err != nil {
		return nil, err
	}
	r.wait, r.key, r.accept = q.Wait, q.Key, mimeNDJSON
	r.inSession, r.number = q.Key == "", q.number
	a, err := c.do(ctx, c.numbered(r))
	if err != nil || a.status == http.StatusNoContent {
		return nil, err
	}
	return decodeClaim(a)
}

// TickleOptions go with a tickle. The zero value extends the lease by what it is.
type TickleOptions struct {
	ClaimID  string // must be what holds the job
	RunnerID string // must be who holds it
	LeaseMs  int64  // 0: the lease it has
	Step     string // of jobs
	Progress *float64
}

type tickleBody struct {
	JobIDs   []string `json:"job_ids,omitempty"`
	ClaimID  string   `json:"claim_id,omitzero"`
	RunnerID string   `json:"runner_id,omitzero"`
	LeaseMs  int64    `json:"lease_ms,omitzero"`
	Step     string   `json:"step,omitzero"`
	Progress *float64 `json:"progress,omitzero"`
}

func (o *TickleOptions) body() tickleBody {
	return tickleBody{ClaimID: o.ClaimID, RunnerID: o.RunnerID, LeaseMs: o.LeaseMs, Step: o.Step, Progress: o.Progress}
}

// Tickle reports that a job is being worked on, and returns its document. ErrNotFound, ErrNotActive, ErrClaimLost,
// ErrRunnerDiffers. Repeated when the answer is lost.
func (c *Client) Tickle(ctx context.Context, id string, o TickleOptions) (*Job, error) {
	return c.jobCall(ctx, id, "/tickle", o.body(), repeatable)
}

// jobCall posts to a route of one job, which answers its document.
func (c *Client) jobCall(ctx context.Context, id, route string, body any, repeat repeating) (*Job, error) {
	path, err := idPath("/jobs/", id, route)
	if err != nil {
		return nil, err
	}
	r, err := post(path, body, repeat)
	if err != nil {
		return nil, err
	}
	if route == "/complete" || route == "/release" {
		r = c.numbered(r)
	}
	a, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return decodeJob(a)
}

// Held is the answer to a tickle of several jobs: how many are held, and which are not.
type Held struct {
	Held int    `json:"held"`
	Lost []Lost `json:"lost"`
}

// Lost is a job that is not held, and why.
type Lost struct {
	JobID string `json:"job_id"`
	Code  string `json:"code"`
}

// TickleClaim extends all that a claim still holds. ErrClaimLost when it holds nothing; the *Error then names what is
// lost. Repeated when the answer is lost.
func (c *Client) TickleClaim(ctx context.Context, claimID string, o TickleOptions) (Held, error) {
	o.ClaimID = claimID
	return c.tickleMany(ctx, o.body())
}

// TickleRunner extends all that a runner holds, like TickleClaim.
func (c *Client) TickleRunner(ctx context.Context, runnerID string, o TickleOptions) (Held, error) {
	o.RunnerID = runnerID
	return c.tickleMany(ctx, o.body())
}

// TickleJobs extends jobs by their ids, up to 1000, like TickleClaim.
func (c *Client) TickleJobs(ctx context.Context, ids []string, o TickleOptions) (Held, error) {
	b := o.body()
	b.JobIDs = ids
	return c.tickleMany(ctx, b)
}

func (c *Client) tickleMany(ctx context.Context, b tickleBody) (held Held, err error) {
	r, err := post("/jobs/tickle", b, repeatable)
	if err != nil {
		return held, err
	}
	a, err := c.do(ctx, r)
	if err != nil {
		return held, err
	}
	return held, decode(a, &held)
}

// Outcome is how a run ended. The zero value is ok.
type Outcome struct {
	Code     string // ok, failed, retry or error; "" takes it from ExitCode, or is ok
	ExitCode int    // of the code's class: 2xx, 4xx, 1xx, 5xx; 0: its standard
	// ProcessExit is the exit status of a process.
	ProcessExit *int64
	OutputAddr  string
	// Output of OutputKind. Without a kind it is taken as a Text when it is valid UTF-8, as Bytes otherwise; an empty
	// one is none then.
	Output     []byte
	OutputKind Kind
	Error      string
	DelayMs    *int64 // of a retry or error: instead of the backoff
}

// TextOutput is ok with a text.
func TextOutput(text string) Outcome { return Outcome{Output: []byte(text), OutputKind: Text} }

// JSONOutput is ok with a JSON value.
func JSONOutput(value jsontext.Value) Outcome { return Outcome{Output: value, OutputKind: JSON} }

// plain reports whether o is ok and says nothing more.
func (o *Outcome) plain() bool {
	return (o.Code == "" || o.Code == "ok") && o.ExitCode == 0 && o.ProcessExit == nil && o.OutputAddr == "" && o.OutputKind == None && len(o.Output) == 0 &&
		o.Error == "" && o.DelayMs == nil
}
