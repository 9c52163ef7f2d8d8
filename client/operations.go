package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Cancel ends a job that has not ended, and returns its document. The runner of an active one is notified at its next
// tickle or completion. A job that is cancelled already is no error; another ended one is ErrConflict. Repeated when
// the answer is lost.
func (c *Client) Cancel(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/cancel", struct{}{}, repeatable)
}

// Redrive makes an ended job pending as if it were new. ErrConflict when it has not ended, ErrKeyHeld when another
// unfinished job has its unique key. Not repeated when the answer is lost (ErrUnknown): by then it may have run and
// ended again.
func (c *Client) Redrive(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/redrive", struct{}{}, sentOnce)
}

// RunNow makes a deferred job pending before its time. ErrConflict when it is active or has ended. Repeated when the
// answer is lost.
func (c *Client) RunNow(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/run", struct{}{}, repeatable)
}

// Patch changes attributes of a waiting job; nil leaves one as it is. RunAt that is not in the future makes it pending.
// ErrConflict when it is active or has ended, or has been claimed MaxAttempts times already. Repeated when the answer
// is lost.
type Patch struct {
	Priority    *int   `json:"priority,omitzero"`
	RunAt       *int64 `json:"run_at,omitzero"` // unix ms
	MaxAttempts *int   `json:"max_attempts,omitzero"`
}

// Patch applies p to a job, and returns its document.
func (c *Client) Patch(ctx context.Context, id string, p Patch) (*Job, error) {
	path, err := idPath("/jobs/", id, "")
	if err != nil {
		return nil, err
	}
	r, err := post(path, p, repeatable)
	if err != nil {
		return nil, err
	}
	r.method = http.MethodPatch
	a, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return decodeJob(a)
}

// Delete forgets a job, whatever its status. ErrNotFound when it is not there, which after a lost answer means that it
// went. Repeated then.
func (c *Client) Delete(ctx context.Context, id string) error {
	path, err := idPath("/jobs/", id, "")
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request{method: http.MethodDelete, path: path, repeat: repeatable})
	return err
}

// Sweep is the document of an operation on many jobs. One that was done at once has no ID.
type Sweep struct {
	ID         string `json:"sweep_id"`
	Operation  string `json:"operation"` // cancel, redrive or delete
	BatchID    string `json:"batch_id"`
	Client     string `json:"client"`
	Type       string `json:"type"`
	Status     string `json:"status"` // of the jobs that it takes; "": any that the operation takes
	Moved      int64  `json:"moved"`
	Skipped    int64  `json:"skipped"` // not redriven, since another job has their unique key
	Done       bool   `json:"done"`
	CreatedAt  int64  `json:"created_at"`
	FinishedAt int64  `json:"finished_at"`
}

// CancelBatch cancels the jobs of a batch that are in a status, or with "" all that have not ended. Many jobs are a
// sweep, which continues after the answer: see WaitSweep. Repeated when the answer is lost, like all of these but the
// redrives.
func (c *Client) CancelBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.sweepBatch(ctx, request{method: http.MethodPost, repeat: repeatable}, batchID, "/cancel", status)
}

// RedriveBatch redrives the failed jobs of a batch, or those in another status.
func (c *Client) RedriveBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.sweepBatch(ctx, request{method: http.MethodPost}, batchID, "/redrive", status)
}

// DeleteBatch deletes the jobs of a batch that are in a status, or with "" all.
func (c *Client) DeleteBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.sweepBatch(ctx, request{method: http.MethodDelete, repeat: repeatable}, batchID, "", status)
}

// CancelQueue is CancelBatch for a queue.
func (c *Client) CancelQueue(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.sweepQueue(ctx, request{method: http.MethodPost, path: "/cancel", query: ofStatus(status), repeat: repeatable}, client, typ)
}

// RedriveQueue is RedriveBatch for a queue.
func (c *Client) RedriveQueue(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.sweepQueue(ctx, request{method: http.MethodPost, path: "/redrive", query: ofStatus(status)}, client, typ)
}

// DeleteQueueJobs deletes the jobs of a queue that are in a status, or with "all" all.
func (c *Client) DeleteQueueJobs(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.sweepQueue(ctx, request{method: http.MethodDelete, path: "/jobs", query: ofStatus(status), repeat: repeatable}, client, typ)
}

// sweepBatch sends a request about the jobs of a batch that are in a status.
func (c *Client) sweepBatch(ctx context.Context, r request, id, verb, status string) (w Sweep, err error) {
	if r.path, err = idPath("/batches/", id, verb); err != nil {
		return w, err
	}
	r.query = ofStatus(status)
	return c.sweepCall(ctx, r)
}

// sweepQueue sends a request about the jobs of a queue, with the query of a status. r.path is what follows the queue.
func (c *Client) sweepQueue(ctx context.Context, r request, client, typ string) (Sweep, error) {
	path, err := queuePath(client, typ)
	if err != nil {
		return Sweep{}, err
	}
	r.path = path + r.path
	return c.sweepCall(ctx, r)
}

func ofStatus(status string) url.Values {
	if status == "" {
		return nil
	}
	return url.Values{"status": {status}}
}

func (c *Client) sweepCall(ctx context.Context, r request) (w Sweep, err error) {
	a, err := c.do(ctx, r)
	if err != nil {
		return w, err
	}
	return w, decode(a, &w)
}

// Sweep returns the document of a sweep. ErrNotFound when there is none, or it ended more than a day ago.
func (c *Client) Sweep(ctx context.Context, id string) (Sweep, error) {
	path, err := idPath("/sweeps/", id, "")
	if err != nil {
		return Sweep{}, err
	}
	return c.sweepCall(ctx, get(path))
}

// Sweeps returns those that are under way and those that ended within a day, oldest first.
func (c *Client) Sweeps(ctx context.Context) ([]Sweep, error) {
	a, err := c.do(ctx, get("/sweeps"))
	if err != nil {
		return nil, err
	}
	var doc struct {
		Sweeps []Sweep `json:"sweeps"`
	}
	return doc.Sweeps, decode(a, &doc)
}

// WaitSweep reads a sweep until it is done. It calls progress, if given, with each document that it reads.
func (c *Client) WaitSweep(ctx context.Context, w Sweep, progress func(Sweep)) (Sweep, error) {
	for wait := 10 * time.Millisecond; !w.Done; wait = min(2*wait, time.Second) {
		sleep(ctx, wait)
		if err := ctx.Err(); err != nil {
			return w, err
		}
		now, err := c.Sweep(ctx, w.ID)
		if err != nil {
			return w, err
		}
		if w = now; progress != nil {
			progress(w)
		}
	}
	return w, nil
}
