package client

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/internal/backoff"
	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
)

// Cancel cancels a job that has not ended, and returns its document. The runner of an active job is notified at its
// next tickle or completion. Cancelling a cancelled job again is no error. The error is ErrConflict if the job has
// already completed or failed. Cancel is repeated when the answer is lost.
//
// A batch that was created by one request has the same id as its first job. Cancel, like all calls about one job, then
// applies to that job only; CancelBatch cancels the batch.
func (c *Client) Cancel(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/cancel", struct{}{}, transport.Repeatable)
}

// Redrive makes an ended job pending, with no attempts used. The error is ErrConflict if the job has not ended, and
// ErrKeyHeld if another unfinished job has its unique key. Redrive is not repeated when the answer is lost
// (ErrUnknown): the job may have run and ended again since.
func (c *Client) Redrive(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/redrive", struct{}{}, transport.SentOnce)
}

// RunNow makes a deferred job pending now. The error is ErrConflict if the job is active or has ended. RunNow is
// repeated when the answer is lost.
func (c *Client) RunNow(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/run", struct{}{}, transport.Repeatable)
}

// Patch is a change of attributes of a waiting job. nil leaves an attribute as it is. A RunAt that is not in the future
// makes the job pending.
type Patch struct {
	Priority    *int   `json:"priority,omitzero"`
	RunAt       *int64 `json:"run_at,omitzero"` // unix ms
	MaxAttempts *int   `json:"max_attempts,omitzero"`
}

// Patch applies p to a job, and returns the job's document. The error is ErrConflict if the job is active, has ended,
// or has already been claimed MaxAttempts times. Patch is repeated when the answer is lost.
func (c *Client) Patch(ctx context.Context, id string, p Patch) (*Job, error) {
	return c.askJob(ctx, about(http.MethodPatch, "/jobs/", id, "").With(p))
}

// Delete deletes a job in any status. The error is ErrNotFound if there is no such job. Delete is repeated when the
// answer is lost; ErrNotFound may then mean that the first request deleted the job.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.conn.Tell(ctx, about(http.MethodDelete, "/jobs/", id, ""))
}

// Sweep is the document of an operation on many jobs. ID is empty if the operation was finished within the request.
type Sweep struct {
	ID         string `json:"sweep_id"`
	Operation  string `json:"operation"` // cancel, redrive or delete
	BatchID    string `json:"batch_id"`
	Client     string `json:"client"`
	Type       string `json:"type"`
	Status     string `json:"status"` // of the jobs to change; "" means all statuses that the operation allows
	Moved      int64  `json:"moved"`
	Skipped    int64  `json:"skipped"` // jobs that were not redriven, since another job has their unique key
	Done       bool   `json:"done"`
	CreatedAt  int64  `json:"created_at"`
	FinishedAt int64  `json:"finished_at"`

	Text []byte `json:"-"` // the document as the server sent it
}

// UnmarshalJSON decodes a document of the server.
func (s *Sweep) UnmarshalJSON(text []byte) error {
	type document Sweep
	*s = Sweep{Text: bytes.Clone(text)}
	return json.Unmarshal(text, (*document)(s))
}

// CancelBatch cancels the jobs of a batch that are in a status, or with "" all that have not ended. If there are many
// jobs, the server continues after its answer; WaitSweep waits until it is done. A batch with attributes gets the
// status cancelled at once, and none of its jobs begins after the answer. CancelBatch is repeated when the answer is
// lost, as are all cancels and deletes, but not the redrives.
func (c *Client) CancelBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.sweep(ctx, about(http.MethodPost, "/batches/", batchID, "/cancel"), status)
}

// RedriveBatch redrives the jobs of a batch that are in a status, or with "" the failed ones.
func (c *Client) RedriveBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.sweep(ctx, about(http.MethodPost, "/batches/", batchID, "/redrive"), status)
}

// DeleteBatch deletes the jobs of a batch that are in a status, or with "" all.
func (c *Client) DeleteBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.sweep(ctx, about(http.MethodDelete, "/batches/", batchID, ""), status)
}

// CancelQueue is CancelBatch for a queue.
func (c *Client) CancelQueue(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.sweep(ctx, aboutQueue(http.MethodPost, client, typ, "/cancel"), status)
}

// RedriveQueue is RedriveBatch for a queue.
func (c *Client) RedriveQueue(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.sweep(ctx, aboutQueue(http.MethodPost, client, typ, "/redrive"), status)
}

// DeleteQueueJobs deletes the jobs of a queue that are in a status. The status "all" means all jobs.
func (c *Client) DeleteQueueJobs(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.sweep(ctx, aboutQueue(http.MethodDelete, client, typ, "/jobs"), status)
}

// sweep sends a request about the jobs of a batch or queue that are in a status. A redrive is not repeated: the jobs may
// have run and ended again since.
func (c *Client) sweep(ctx context.Context, r transport.Request, status string) (Sweep, error) {
	if status != "" {
		r.Query = url.Values{"status": {status}}
	}
	if strings.HasSuffix(r.Path, "/redrive") {
		r.Repeat = transport.SentOnce
	}
	return transport.Ask[Sweep](ctx, &c.conn, r)
}

// Sweep returns the document of a sweep, or ErrNotFound if there is none, or it ended more than a day ago.
func (c *Client) Sweep(ctx context.Context, id string) (Sweep, error) {
	return transport.Ask[Sweep](ctx, &c.conn, about(http.MethodGet, "/sweeps/", id, ""))
}

// Sweeps returns the sweeps that are running or ended within the last day, oldest first.
func (c *Client) Sweeps(ctx context.Context) ([]Sweep, error) {
	doc, err := transport.Ask[struct {
		Sweeps []Sweep `json:"sweeps"`
	}](ctx, &c.conn, transport.Get("/sweeps"))
	return doc.Sweeps, err
}

// WaitSweep waits until an operation on many jobs is done, for example a cancel that was answered with w: all jobs of
// the cancelled batch or queue have ended then. While it waits, it calls progress, if not nil, with each document that
// it reads.
func (c *Client) WaitSweep(ctx context.Context, w Sweep, progress func(Sweep)) (Sweep, error) {
	for wait := 10 * time.Millisecond; !w.Done; wait = min(2*wait, time.Second) {
		backoff.Sleep(ctx, wait)
		if err := ctx.Err(); err != nil {
			return w, err
		}
		now, err := c.sweepNow(ctx, w)
		if err != nil {
			return w, err
		}
		if w = now; progress != nil {
			progress(w)
		}
	}
	return w, nil
}

// sweepNow reads the progress of a sweep. Cancelling a batch with attributes creates no sweep: it is done when all jobs
// of the batch have ended.
func (c *Client) sweepNow(ctx context.Context, w Sweep) (Sweep, error) {
	if w.ID != "" || w.BatchID == "" {
		return c.Sweep(ctx, w.ID)
	}
	b, err := c.Batch(ctx, w.BatchID)
	switch {
	case errors.Is(err, problem.ErrNotFound): // it was deleted, or is purged
		w.Done = true
		return w, nil
	case err != nil:
		return w, err
	}
	w.Moved = max(w.Moved, b.Counts["cancelled"])
	w.Done = b.Counts["deferred"]+b.Counts["pending"]+b.Counts["active"] == 0
	return w, nil
}
