package client

import (
	"context"

	"github.com/daybookq/daybook/client/internal/transport"
)

// CreateOptions are the options of CreateMany. The zero value works.
type CreateOptions struct {
	// Each makes the server refuse only the invalid jobs, and create all others. Without Each, one invalid job makes
	// the server refuse all.
	Each bool
	// Key is an idempotency key: see NewKey.
	Key string
}

// Created is the answer to CreateMany. Results has one entry per job, in order, if Each is set or a job has a unique
// key.
type Created struct {
	BatchID string         `json:"batch_id"`
	Count   int            `json:"count"`
	FirstID string         `json:"first_id"`
	LastID  string         `json:"last_id"`
	Results []CreateResult `json:"results"`
}

// CreateResult is the server's answer to one job. JobID is its id, or with Existing the id of the unfinished job that
// has its unique key. If the job was refused, Code, Detail and Field give the reason.
type CreateResult struct {
	JobID    string `json:"job_id"`
	Existing bool   `json:"existing"`
	Code     string `json:"code"` // "" if it was not refused
	Detail   string `json:"detail"`
	Field    string `json:"field"`
}

// CreateMany creates jobs in one batch: all of them or none, unless o.Each is set. One call accepts at most 8 MiB,
// 1,000 unique keys, and 1,000 changes of attributes from one job to the next. With a key it is repeated when the
// answer is lost; otherwise it is repeated as Create is.
func (c *Client) CreateMany(ctx context.Context, jobs []NewJob, o CreateOptions) (Created, error) {
	bodies, err := c.createBodies(jobs, c.repeatOf(o.Key))
	if err != nil {
		return Created{}, err
	}
	return c.create(ctx, c.numbered(post("/jobs/create", bodies, transport.RepeatableWith(o.Key))), o)
}

// create sends a create of several jobs.
func (c *Client) create(ctx context.Context, r transport.Request, o CreateOptions) (Created, error) {
	if r.Key = o.Key; o.Each {
		r.Prefer = "results=each"
	}
	return transport.Ask[Created](ctx, &c.conn, c.inTrace(ctx, r))
}

// createBodies returns jobs in the form of a request. repeat names the request; see repeatOf.
func (c *Client) createBodies(jobs []NewJob, repeat string) (bodies []createBody, err error) {
	if jobs, err = c.encodedJobs(jobs, repeat); err != nil {
		return nil, err
	}
	bodies = make([]createBody, len(jobs))
	for i := range jobs {
		if bodies[i], err = jobs[i].body(); err != nil {
			return nil, err
		}
	}
	return bodies, nil
}
