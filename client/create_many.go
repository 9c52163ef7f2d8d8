package client

import (
	"context"
)

// CreateOptions are how CreateMany makes jobs. The zero value works.
type CreateOptions struct {
	// Each has every job stand for itself: those that are wrong are refused, and the others made. Without it, one wrong
	// job refuses all.
	Each bool
	// Key is an idempotency key: see NewKey.
	Key string
}

// Created is what CreateMany made. Results has one entry per job, in order, with Each, or when a job has a unique key.
type Created struct {
	BatchID string         `json:"batch_id"`
	Count   int            `json:"count"`
	FirstID string         `json:"first_id"`
	LastID  string         `json:"last_id"`
	Results []CreateResult `json:"results"`
}

// CreateResult is what became of one job: its id, or that of the unfinished job that has its unique key, or why it was
// refused.
type CreateResult struct {
	JobID    string `json:"job_id"`
	Existing bool   `json:"existing"`
	Code     string `json:"code"` // "" when it was not refused
	Detail   string `json:"detail"`
	Field    string `json:"field"`
}

// CreateMany creates jobs in one batch: all of them or none, unless o.Each says otherwise. One call takes 8 MiB, 1,000
// unique keys, and 1,000 changes of attributes from job to job. Repeated with a key, and otherwise as Create is.
func (c *Client) CreateMany(ctx context.Context, jobs []NewJob, o CreateOptions) (created Created, err error) {
	bodies := make([]createBody, len(jobs))
	for i := range jobs {
		if bodies[i], err = jobs[i].body(); err != nil {
			return created, err
		}
	}
	r, err := post("/jobs/create", bodies, repeatableWith(o.Key))
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
