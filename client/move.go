package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Cancel ends a job that has not ended, and returns its document. The runner of an active one is told at its next tickle or completion. A
// job that is cancelled already is no error; another ended one is ErrConflict. Repeated when the answer is lost.
func (c *Client) Cancel(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/cancel", struct{}{}, true)
}

// Redrive makes an ended job pending as if it were new. ErrConflict when it has not ended, ErrKeyHeld when another unfinished job has its
// unique key. Not repeated when the answer is lost (ErrUnknown): by then it may have run and ended again.
func (c *Client) Redrive(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/redrive", struct{}{}, false)
}

// RunNow makes a deferred job pending before its time. ErrConflict when it is active or has ended. Repeated when the answer is lost.
func (c *Client) RunNow(ctx context.Context, id string) (*Job, error) {
	return c.jobCall(ctx, id, "/run", struct{}{}, true)
}

// Patch changes attributes of a waiting job; nil leaves one as it is. RunAt that is not in the future makes it pending. ErrConflict when it
// is active or has ended, or has been claimed MaxAttempts times already. Repeated when the answer is lost.
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
	r, err := post(path, p, true)
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

// Delete forgets a job, whatever its status. ErrNotFound when it is not there, which after a lost answer means that it went. Repeated then.
func (c *Client) Delete(ctx context.Context, id string) error {
	path, err := idPath("/jobs/", id, "")
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request{method: http.MethodDelete, path: path, repeatable: true})
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

// CancelBatch cancels the jobs of a batch that are in a status, or with "" all that have not ended. Many jobs are a sweep, which goes on
// behind the answer: see WaitSweep. Repeated when the answer is lost, like all of these but the redrives.
func (c *Client) CancelBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.ofBatch(ctx, http.MethodPost, batchID, "/cancel", status, true)
}

// RedriveBatch redrives the failed jobs of a batch, or those in another status.
func (c *Client) RedriveBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.ofBatch(ctx, http.MethodPost, batchID, "/redrive", status, false)
}

// DeleteBatch deletes the jobs of a batch that are in a status, or with "" all.
func (c *Client) DeleteBatch(ctx context.Context, batchID, status string) (Sweep, error) {
	return c.ofBatch(ctx, http.MethodDelete, batchID, "", status, true)
}

// CancelQueue is CancelBatch for a queue.
func (c *Client) CancelQueue(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.ofQueue(ctx, http.MethodPost, client, typ, "/cancel", status, true)
}

// RedriveQueue is RedriveBatch for a queue.
func (c *Client) RedriveQueue(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.ofQueue(ctx, http.MethodPost, client, typ, "/redrive", status, false)
}

// DeleteQueueJobs deletes the jobs of a queue that are in a status, or with "all" all.
func (c *Client) DeleteQueueJobs(ctx context.Context, client, typ, status string) (Sweep, error) {
	return c.ofQueue(ctx, http.MethodDelete, client, typ, "/jobs", status, true)
}

func (c *Client) ofBatch(ctx context.Context, method, id, verb, status string, repeatable bool) (Sweep, error) {
	path, err := idPath("/batches/", id, verb)
	if err != nil {
		return Sweep{}, err
	}
	return c.sweepCall(ctx, request{method: method, path: path, query: ofStatus(status), repeatable: repeatable})
}

func (c *Client) ofQueue(ctx context.Context, method, client, typ, verb, status string, repeatable bool) (Sweep, error) {
	path, err := queuePath(client, typ)
	if err != nil {
		return Sweep{}, err
	}
	return c.sweepCall(ctx, request{method: method, path: path + verb, query: ofStatus(status), repeatable: repeatable})
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

// WaitSweep asks about a sweep until it is done, and tells progress, where given, what it hears.
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

// Stop ends all handing out of jobs until Start, whatever queues are paused or not. Repeated when the answer is lost, as is Start.
func (c *Client) Stop(ctx context.Context) error { return c.throw(ctx, "/stop") }

// Start undoes Stop.
func (c *Client) Start(ctx context.Context) error { return c.throw(ctx, "/start") }

func (c *Client) throw(ctx context.Context, path string) error {
	_, err := c.do(ctx, request{method: http.MethodPost, path: path, repeatable: true})
	return err
}

// AcceptTime sets the server's time, by which leases and run_at are measured, to its wall clock at once if it is behind it, as after a step
// of that clock. All leases begin anew. It returns how far the server's time is ahead of its wall clock afterwards. Repeated when the answer
// is lost.
func (c *Client) AcceptTime(ctx context.Context) (offset time.Duration, err error) {
	a, err := c.do(ctx, request{method: http.MethodPost, path: "/clock/accept", repeatable: true})
	if err != nil {
		return 0, err
	}
	var doc struct {
		ClockOffsetMs int64 `json:"clock_offset_ms"`
	}
	if err := decode(a, &doc); err != nil {
		return 0, err
	}
	return time.Duration(doc.ClockOffsetMs) * time.Millisecond, nil
}

// Quit has the server end gracefully. ErrForbidden when it is not on this machine, or does not end by request.
func (c *Client) Quit(ctx context.Context) error {
	_, err := c.once(ctx, request{method: http.MethodPost, path: "/quit"})
	return err
}

// CreateOptions are how CreateMany makes jobs. The zero value works.
type CreateOptions struct {
	// Each has every job stand for itself: those that are wrong are refused, and the others made. Else one refuses all.
	Each bool
	// Key is an idempotency key: see NewKey.
	Key string
}

// Created is what CreateMany made. Results has one entry per job, in order, when Each was asked for or a job has a unique key.
type Created struct {
	BatchID string         `json:"batch_id"`
	Count   int            `json:"count"`
	FirstID string         `json:"first_id"`
	LastID  string         `json:"last_id"`
	Results []CreateResult `json:"results"`
}

// CreateResult is what became of one job: its id, or that of the unfinished job that has its unique key, or why it was refused.
type CreateResult struct {
	JobID    string `json:"job_id"`
	Existing bool   `json:"existing"`
	Code     string `json:"code"` // "" when it was not refused
	Detail   string `json:"detail"`
	Field    string `json:"field"`
}

// CreateMany creates jobs in one batch: all of them or none, unless o.Each says otherwise. One call takes 8 MiB, 1,000 unique keys, and 1,000
// changes of attributes from job to job. Repeated with a key, and else as Create is.
func (c *Client) CreateMany(ctx context.Context, jobs []NewJob, o CreateOptions) (created Created, err error) {
	bodies := make([]createBody, len(jobs))
	for i := range jobs {
		if bodies[i], err = jobs[i].body(); err != nil {
			return created, err
		}
	}
	r, err := post("/jobs/create", bodies, o.Key != "")
	if err != nil {
		return created, err
	}
	if r.key = o.Key; o.Each {
		r.prefer = "results=each"
	}
	a, err := c.do(ctx, c.numbered(r))
	if err != nil {
		return created, err
	}
	return created, decode(a, &created)
}
