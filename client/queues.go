package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"

	"github.com/daybookq/daybook/job"
)

// Batch is the document of a batch: how many jobs it had, and how many are in each status. Purged ones are counted
// apart.
type Batch struct {
	ID        string           `json:"batch_id"`
	CreatedAt int64            `json:"created_at"`
	Count     int64            `json:"count"`
	Counts    map[string]int64 `json:"counts"`
	Purged    int64            `json:"purged"`
}

// Queue is the document of a queue.
type Queue struct {
	Client    string           `json:"client"`
	Type      string           `json:"type"`
	Paused    bool             `json:"paused"`
	CreatedAt int64            `json:"created_at"`
	Counts    map[string]int64 `json:"counts"`
	// OldestPendingAgeMs is how long the job next in line has been pending; nil without one.
	OldestPendingAgeMs *int64 `json:"oldest_pending_age_ms"`
}

// Batch returns the document of a batch. ErrNotFound when there is none, or all of it is purged. Repeated when the
// answer is lost.
func (c *Client) Batch(ctx context.Context, id string) (b Batch, err error) {
	path, err := idPath("/batches/", id, "")
	if err != nil {
		return b, err
	}
	a, err := c.do(ctx, get(path))
	if err != nil {
		return b, err
	}
	return b, decode(a, &b)
}

// Queues yields all queues in the order of client and type, page by page; of one client or, with "", of all. An error
// ends it. Pages are repeated when the answer is lost.
func (c *Client) Queues(ctx context.Context, client string) iter.Seq2[Queue, error] {
	r := get("/queues")
	if client != "" {
		r.query = url.Values{"client": {client}}
	}
	return pages(ctx, c, r, func(a answer) (list []Queue, next string, err error) {
		var page struct {
			Queues []Queue `json:"queues"`
			Next   string  `json:"next"`
		}
		err = decode(a, &page)
		return page.Queues, page.Next, err
	})
}

// Queue returns the document of a queue. ErrNotFound when there is none.
func (c *Client) Queue(ctx context.Context, client, typ string) (Queue, error) {
	path, err := queuePath(client, typ)
	if err != nil {
		return Queue{}, err
	}
	return c.queueCall(ctx, get(path))
}

// DeleteQueue deletes a queue that has no jobs; the next job of that client and type makes it again. ErrConflict when
// it has jobs, ErrNotFound when it is not there, which after a lost answer means that it was deleted. Repeated then.
func (c *Client) DeleteQueue(ctx context.Context, client, typ string) error {
	path, err := queuePath(client, typ)
	if err != nil {
		return err
	}
	_, err = c.do(ctx, request{method: http.MethodDelete, path: path, repeat: repeatable})
	return err
}

// Pause stops handing out the jobs of a queue; what is active continues. Repeated when the answer is lost, as is
// Resume.
func (c *Client) Pause(ctx context.Context, client, typ string) (Queue, error) {
	return c.change(ctx, client, typ, "/pause")
}

// Resume undoes Pause.
func (c *Client) Resume(ctx context.Context, client, typ string) (Queue, error) {
	return c.change(ctx, client, typ, "/resume")
}

func (c *Client) change(ctx context.Context, client, typ, verb string) (Queue, error) {
	path, err := queuePath(client, typ)
	if err != nil {
		return Queue{}, err
	}
	return c.queueCall(ctx, request{method: "POST", path: path + verb, repeat: repeatable})
}

func (c *Client) queueCall(ctx context.Context, r request) (q Queue, err error) {
	a, err := c.do(ctx, r)
	if err != nil {
		return q, err
	}
	return q, decode(a, &q)
}

func queuePath(client, typ string) (string, error) {
	for field, name := range map[string]string{"client": client, "type": typ} {
		if err := job.CheckName(field, name); err != nil {
			return "", fmt.Errorf("%w: %w", ErrBadRequest, err)
		}
	}
	return "/queues/" + client + "/" + typ, nil
}
