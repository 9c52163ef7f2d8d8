package client

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Queue is the document of a queue.
type Queue struct {
	Client    string           `json:"client"`
	Type      string           `json:"type"`
	Paused    bool             `json:"paused"`
	CreatedAt int64            `json:"created_at"`
	Counts    map[string]int64 `json:"counts"`
	// OldestPendingAgeMs is how long the next job to be claimed has been pending; nil if no job is pending.
	OldestPendingAgeMs *int64 `json:"oldest_pending_age_ms"`

	Text []byte `json:"-"` // the document as the server sent it
}

// UnmarshalJSON decodes a document of the server.
func (q *Queue) UnmarshalJSON(text []byte) error {
	type document Queue
	*q = Queue{Text: bytes.Clone(text)}
	return json.Unmarshal(text, (*document)(q))
}

// Queues yields all queues in order of client and type, page by page. With a client it yields only the queues of that
// client. An error ends the list. A page is read again when the answer is lost.
func (c *Client) Queues(ctx context.Context, client string) iter.Seq2[Queue, error] {
	r := transport.Get("/queues")
	if client != "" {
		r.Query = url.Values{"client": {client}}
	}
	return transport.List[Queue](ctx, &c.conn, r, "queues")
}

// Queue returns the document of a queue. The error is ErrNotFound if there is no such queue.
func (c *Client) Queue(ctx context.Context, client, typ string) (Queue, error) {
	return transport.Ask[Queue](ctx, &c.conn, aboutQueue(http.MethodGet, client, typ, ""))
}

// DeleteQueue deletes a queue without jobs. The next job of that client and type creates the queue again. The error is
// ErrConflict if the queue has jobs, and ErrNotFound if there is no such queue. DeleteQueue is repeated when the answer
// is lost; ErrNotFound may then mean that the first request deleted the queue.
func (c *Client) DeleteQueue(ctx context.Context, client, typ string) error {
	return c.conn.Tell(ctx, aboutQueue(http.MethodDelete, client, typ, ""))
}

// Pause pauses a queue: its jobs are no longer claimed. Active jobs continue. Pause and Resume are repeated when the
// answer is lost.
func (c *Client) Pause(ctx context.Context, client, typ string) (Queue, error) {
	return transport.Ask[Queue](ctx, &c.conn, aboutQueue(http.MethodPost, client, typ, "/pause"))
}

// Resume ends the pause of a queue.
func (c *Client) Resume(ctx context.Context, client, typ string) (Queue, error) {
	return transport.Ask[Queue](ctx, &c.conn, aboutQueue(http.MethodPost, client, typ, "/resume"))
}
