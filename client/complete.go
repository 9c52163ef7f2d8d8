package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// JobOutcome is the outcome of one job.
type JobOutcome struct {
	JobID   string
	ClaimID string // the claim that holds the job; "" means the claim that the call names
	Outcome
}

// Result is the server's answer to one outcome. Status is the job's status now. If the outcome was refused, Code and
// Detail give the reason.
type Result struct {
	JobID  string `json:"job_id"`
	Status string `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Err returns the refusal, or nil. errors.Is compares it with the same sentinels as the errors of single calls.
func (r *Result) Err() error {
	if r.Code == "" {
		return nil
	}
	return &problem.Error{Code: r.Code, Detail: r.Detail}
}

type outcomeBody struct {
	JobID   string `json:"job_id,omitzero"`
	ClaimID string `json:"claim_id,omitzero"`
	Outcome
	Output    jsontext.Value `json:"output,omitzero"`
	OutputB64 []byte         `json:"output_b64,omitzero"`
	Then      []createBody   `json:"then,omitempty"`

	Except []outcomeBody `json:"except,omitempty"`
}

func (o *Outcome) body(jobID string) (b outcomeBody, err error) {
	b = outcomeBody{JobID: jobID, Outcome: *o}
	if b.Code == "" && b.ExitCode == 0 {
		b.Code = "ok"
	}
	for i := range o.Then {
		then, err := o.Then[i].body()
		if err != nil {
			return b, fmt.Errorf("then[%d]: %w", i, err)
		}
		b.Then = append(b.Then, then)
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
		list[i].ClaimID = outcomes[i].ClaimID
	}
	return list, nil
}

// Complete ends the run of a job, and returns the job's document. It returns ErrNotFound, ErrNotActive, ErrClaimLost or
// ErrOutcomeDiffers if the server refuses.
//
// With a claimID, only that claim may complete the job, and a repeat is no error. Complete is then repeated when the
// answer is lost. If the server has already deleted the job, because its retention has passed, a repeat within a minute
// of the job's end gets the lost answer, and a later one gets ErrNotFound or ErrClaimLost.
//
// With an empty claimID any program may complete the job, and Complete is not repeated: a lost answer is ErrUnknown.
func (c *Client) Complete(ctx context.Context, jobID, claimID string, o Outcome) (*Job, error) {
	o, err := c.encodedOutcome(o, claimID, jobID)
	if err != nil {
		return nil, err
	}
	b, err := o.body("")
	if err != nil {
		return nil, err
	}
	b.ClaimID = claimID
	return c.jobCall(ctx, jobID, "/complete", b, transport.RepeatableWith(claimID))
}

// CompleteClaim gives one outcome to all jobs that a claim still holds. The jobs in except get their own outcomes
// instead. It returns how many jobs got the common outcome, and the results of the exceptions. If ended is less than
// the number of jobs that the claim held, some jobs were lost; CompleteMany reports which. CompleteClaim returns
// ErrClaimLost if the claim is unknown, or holds no job and has ended none. It is repeated when the answer is lost.
func (c *Client) CompleteClaim(ctx context.Context, claimID string, all Outcome, except ...JobOutcome) (ended int, results []Result, err error) {
	all, err = c.encodedOutcome(all, claimID, "")
	if err == nil {
		except, err = c.encodedOutcomes(except, claimID)
	}
	if err != nil {
		return 0, nil, err
	}
	b, err := all.body("")
	if err != nil {
		return 0, nil, err
	}
	b.ClaimID = claimID
	if b.Except, err = bodies(except); err != nil {
		return 0, nil, err
	}
	return c.completeMany(ctx, b, transport.Repeatable)
}

// CompleteMany ends the runs of several jobs and returns a result for each, in order. The server decides about each
// outcome separately. Only if an outcome is malformed does it refuse the whole request (ErrBadRequest). All outcomes
// are sent in one request of at most 8 MiB (ErrTooLarge). If claimID or a number is given (see Numbered), or if each
// outcome names its claim, CompleteMany is repeated when the answer is lost. Otherwise a lost answer is ErrUnknown.
func (c *Client) CompleteMany(ctx context.Context, claimID string, outcomes []JobOutcome) ([]Result, error) {
	outcomes, err := c.encodedOutcomes(outcomes, claimID)
	if err != nil {
		return nil, err
	}
	list, err := bodies(outcomes)
	if err != nil {
		return nil, err
	}
	repeat := transport.Repeatable
	if claimID == "" && slices.ContainsFunc(outcomes, func(o JobOutcome) bool { return o.ClaimID == "" }) {
		repeat = transport.SentOnce
	}
	_, results, err := c.completeMany(ctx, struct {
		ClaimID  string        `json:"claim_id,omitzero"`
		Outcomes []outcomeBody `json:"outcomes"`
	}{claimID, list}, repeat)
	return results, err
}

func (c *Client) completeMany(ctx context.Context, b any, repeat transport.Repeating) (ended int, results []Result, err error) {
	r := post("/jobs/complete", b, repeat)
	r.Verb = "complete"
	doc, err := transport.Ask[struct {
		Ended   int      `json:"ended"`
		Results []Result `json:"results"`
	}](ctx, &c.conn, c.numbered(r))
	return doc.Ended, doc.Results, err
}

// How is the effect of a release on a job.
type How string

// Retry runs the job again after its backoff. Unget returns it to its queue as if it had never been claimed. Archive
// completes it with ok.
const (
	Retry   How = "retry"
	Unget   How = "unget"
	Archive How = "archive"
)

// Release releases a job, and returns its document. It fails, and is repeated, as Complete. delayMs is for Retry; nil
// means the backoff.
func (c *Client) Release(ctx context.Context, jobID, claimID string, how How, delayMs *int64) (*Job, error) {
	return c.jobCall(ctx, jobID, "/release", struct {
		How     How    `json:"how"`
		ClaimID string `json:"claim_id,omitzero"`
		DelayMs *int64 `json:"delay_ms,omitzero"`
	}{how, claimID, delayMs}, transport.RepeatableWith(claimID))
}
