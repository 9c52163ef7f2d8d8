package client

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// JobOutcome is the outcome of one job.
type JobOutcome struct {
	JobID string
	Outcome
}

// Result is what became of one outcome: the status that the job has now or, when it was refused, a code and a detail.
type Result struct {
	JobID  string `json:"job_id"`
	Status string `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Err is nil, or the refusal, which errors.Is compares with the same sentinels as those of single calls.
func (r *Result) Err() error {
	if r.Code == "" {
		return nil
	}
	return &Error{Code: r.Code, Detail: r.Detail}
}

type outcomeBody struct {
	JobID       string         `json:"job_id,omitzero"`
	ClaimID     string         `json:"claim_id,omitzero"`
	RunnerID    string         `json:"runner_id,omitzero"`
	Code        string         `json:"code,omitzero"`
	ExitCode    int            `json:"exit_code,omitzero"`
	ProcessExit *int64         `json:"process_exit,omitzero"`
	OutputAddr  string         `json:"output_addr,omitzero"`
	Output      jsontext.Value `json:"output,omitzero"`
	OutputB64   []byte         `json:"output_b64,omitzero"`
	Error       string         `json:"error,omitzero"`
	DelayMs     *int64         `json:"delay_ms,omitzero"`

	Except []outcomeBody `json:"except,omitempty"`
}

// outcomesBody holds outcomes that are JSON already: of a Worker, which has to know how long they are. Each names its
// claim.
type outcomesBody struct {
	Outcomes []jsontext.Value `json:"outcomes"`
}

func (o *Outcome) body(jobID string) (b outcomeBody, err error) {
	b = outcomeBody{JobID: jobID, Code: o.Code, ExitCode: o.ExitCode, ProcessExit: o.ProcessExit, OutputAddr: o.OutputAddr, Error: o.Error, DelayMs: o.DelayMs}
	if b.Code == "" && b.ExitCode == 0 {
		b.Code = "ok"
	}
	b.Output, b.OutputB64, err = wireContent(o.OutputKind, o.Output)
	return b, err
}

func bodies(outcomes []JobOutcome) ([]outcomeBody, error) {
	list := make([]outcomeBody, len(outcomes))
	for i := range outcomes {
		var err error
		if list[i], err = outcomes[i].body(outcomes[i].JobID); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Complete ends the run of a job, and returns its document. With a claim only the one that holds the job may, and
// repeating it is no error: it is repeated when the answer is lost (of a job with a retention of 0 that is then gone:
// ErrNotFound or ErrClaimLost). Without ("") anybody may, once, and a lost answer is ErrUnknown. ErrNotFound,
// ErrNotActive, ErrClaimLost, ErrOutcomeDiffers.
func (c *Client) Complete(ctx context.Context, jobID, claimID string, o Outcome) (*Job, error) {
	b, err := o.body("")
	if err != nil {
		return nil, err
	}
	b.ClaimID = claimID
	return c.jobCall(ctx, jobID, "/complete", b, repeatableWith(claimID))
}

// CompleteClaim gives an outcome to all that a claim still holds, but to those named in except their own, and returns
// how many jobs have the outcome for all, and the results of the exceptions. Fewer than were held means that some were
// lost; CompleteMany reports which. ErrClaimLost when the claim is unknown, or holds and ended nothing. Repeated when
// the answer is lost.
func (c *Client) CompleteClaim(ctx context.Context, claimID string, all Outcome, except ...JobOutcome) (ended int, results []Result, err error) {
	b, err := all.body("")
	if err != nil {
		return 0, nil, err
	}
	b.ClaimID = claimID
	if b.Except, err = bodies(except); err != nil {
		return 0, nil, err
	}
	return c.completeMany(ctx, b, repeatable)
}

// CompleteMany ends the runs of several jobs and returns a result for each, in order: each outcome stands for itself,
// but for one that is malformed, which has the request refused as a whole (ErrBadRequest). They go in one request, of 8
// MiB at most (ErrTooLarge). With a claim or a number (see Numbered) it is repeated when the answer is lost; without
// either that is ErrUnknown.
func (c *Client) CompleteMany(ctx context.Context, claimID string, outcomes []JobOutcome) ([]Result, error) {
	list, err := bodies(outcomes)
	if err != nil {
		return nil, err
	}
	_, results, err := c.completeMany(ctx, struct {
		ClaimID  string        `json:"claim_id,omitzero"`
		Outcomes []outcomeBody `json:"outcomes"`
	}{claimID, list}, repeatableWith(claimID))
	return results, err
}

func (c *Client) completeMany(ctx context.Context, b any, repeat repeating) (ended int, results []Result, err error) {
	r, err := post("/jobs/complete", b, repeat)
	if err != nil {
		return 0, nil, err
	}
	r.inSession = repeat == repeatable
	a, err := c.do(ctx, c.numbered(r))
	if err != nil {
		return 0, nil, err
	}
	var doc struct {
		Ended   int      `json:"ended"`
		Results []Result `json:"results"`
	}
	if err := decode(a, &doc); err != nil {
		return 0, nil, err
	}
	return doc.Ended, doc.Results, nil
}

// How a job is released.
type How string

// Retry runs it again after its backoff; Unget gives it back as if it had never been claimed; Archive is complete with
// ok.
const (
	Retry   How = "retry"
	Unget   How = "unget"
	Archive How = "archive"
)

// Release gives a job back, and returns its document. Errors and repeating are those of Complete. delayMs goes with
// Retry; nil is the backoff.
func (c *Client) Release(ctx context.Context, jobID, claimID string, how How, delayMs *int64) (*Job, error) {
	return c.jobCall(ctx, jobID, "/release", struct {
		How     How    `json:"how"`
		ClaimID string `json:"claim_id,omitzero"`
		DelayMs *int64 `json:"delay_ms,omitzero"`
	}{how, claimID, delayMs}, repeatableWith(claimID))
}
