package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/daybookq/daybook/client/internal/transport"
)

// JobsQuery selects the jobs of a list. A zero field does not restrict the list.
type JobsQuery struct {
	Status, Client, Type string
	Meta                 map[string]string // pairs that must be in a job's meta
	BatchID              string
	RunnerID, ClaimID    string // of the runner and claim that hold the job, or that ended its last run
	// The list shows jobs with CreatedAfter ≤ created_at < CreatedBefore, in unix ms.
	CreatedAfter, CreatedBefore int64
	// And with UpdatedAfter ≤ updated_at < UpdatedBefore.
	UpdatedAfter, UpdatedBefore int64
	// Order is "oldest" and "newest" by id, or "updated" by updated_at, the last first. "" is "updated" with UpdatedAfter or
	// UpdatedBefore, else "oldest".
	Order    string
	After    string // the list begins after this id; with the order "updated", after the id and updated_at with a slash between them
	PageSize int    // 1 to 1000; 0 means the server's default
	// Fields names the fields that the documents have, by their JSON names; the id is always there. nil means all
	// fields. The server does not read data that the named fields do not need.
	Fields []string
}

func (q *JobsQuery) values() url.Values {
	v := url.Values{}
	for name, value := range map[string]string{
		"status": q.Status, "client": q.Client, "type": q.Type, "batch_id": q.BatchID, "runner_id": q.RunnerID, "claim_id": q.ClaimID, "after": q.After, "order": q.Order,
		"fields": strings.Join(q.Fields, ","),
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, n := range map[string]int64{"created_after": q.CreatedAfter, "created_before": q.CreatedBefore, "updated_after": q.UpdatedAfter, "updated_before": q.UpdatedBefore, "limit": int64(q.PageSize)} {
		if n != 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	for key, value := range q.Meta {
		v.Set("meta."+key, value)
	}
	return v
}

// Jobs yields the jobs of a query in the order of the query, page by page. Each page shows the jobs at one moment, and
// different pages show different moments. An error ends the list. A page is read again when the answer is lost.
func (c *Client) Jobs(ctx context.Context, q JobsQuery) iter.Seq2[*Job, error] {
	r := transport.Get("/jobs")
	r.Query = q.values()
	return transport.Pages(ctx, &c.conn, r, func(a transport.Answer) (list []*Job, next string, err error) {
		var page struct {
			Jobs []jobDocument `json:"jobs"`
			Next string        `json:"next"`
		}
		if err := transport.Decode(a, &page); err != nil {
			return nil, "", err
		}
		list, err = jobsOf(a, page.Jobs)
		c.decodeJobs(list)
		return list, page.Next, err
	})
}

func jobsOf(a transport.Answer, documents []jobDocument) ([]*Job, error) {
	list := make([]*Job, len(documents))
	for i := range documents {
		var err error
		if list[i], err = documents[i].job(); err != nil {
			return nil, a.Unreadable(err)
		}
	}
	return list, nil
}

// ClaimInfo is the document of a claim. Times are unix ms. DeadlineAt is 0 if the claim holds no job.
type ClaimInfo struct {
	ID         string `json:"claim_id"`
	RunnerID   string `json:"runner_id"`
	CreatedAt  int64  `json:"created_at"`
	LeaseMs    int64  `json:"lease_ms"`
	TickledAt  int64  `json:"tickled_at"`
	DeadlineAt int64  `json:"deadline_at"`
	HandedOut  int64  `json:"handed_out"`
	Held       int64  `json:"held"`
	Jobs       []*Job `json:"-"` // the jobs that it holds
}

// ClaimInfo returns the document of a claim, with the documents of the jobs that it holds. If fields are named, the
// documents of the jobs have only these. The error is ErrNotFound if no job names the claim. ClaimInfo is repeated when
// the answer is lost.
func (c *Client) ClaimInfo(ctx context.Context, claimID string, fields ...string) (*ClaimInfo, error) {
	r := about(http.MethodGet, "/claims/", claimID, "")
	if len(fields) > 0 {
		r.Query = url.Values{"fields": {strings.Join(fields, ",")}}
	}
	a, err := c.conn.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	var doc struct {
		ClaimInfo
		Jobs []jobDocument `json:"jobs"`
	}
	if err := transport.Decode(a, &doc); err != nil {
		return nil, err
	}
	doc.ClaimInfo.Jobs, err = jobsOf(a, doc.Jobs)
	if err != nil {
		return nil, err
	}
	c.decodeJobs(doc.ClaimInfo.Jobs)
	return &doc.ClaimInfo, nil
}

// WaitingType is a job type with pending jobs in queues that are not paused.
type WaitingType struct {
	Type    string `json:"type"`
	Waiting int64  `json:"waiting"` // how many jobs
}

// WaitingTypes yields the types that have pending jobs in queues that are not paused, in order, page by page. With a
// client it yields only the types of that client. An error ends the list. A page is read again when the answer is lost.
func (c *Client) WaitingTypes(ctx context.Context, client string) iter.Seq2[WaitingType, error] {
	r := transport.Get("/queues")
	r.Query = url.Values{"waiting": {"true"}}
	if client != "" {
		r.Query.Set("client", client)
	}
	return transport.List[WaitingType](ctx, &c.conn, r, "types")
}
