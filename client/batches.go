package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client/internal/transport"
)

// Batch is the document of a batch. Times are unix ms, 0 if there is none. Count includes the purged jobs, Counts does
// not. The fields from Name on repeat the NewBatch that created the batch; they are zero in a batch without attributes.
type Batch struct {
	ID          string           `json:"batch_id"`
	Status      string           `json:"status"` // in_progress, paused, completed, failed or cancelled
	CreatedAt   int64            `json:"created_at"`
	EndedAt     int64            `json:"ended_at"`
	Count       int64            `json:"count"`
	Counts      map[string]int64 `json:"counts"`
	Purged      int64            `json:"purged"`
	FailedJobID string           `json:"failed_job_id"` // the job that failed first
	Error       string           `json:"error"`         // of that job; "" in lists
	Progress    *BatchProgress   `json:"progress"`      // nil after the end

	Name          string                    `json:"name"`
	Client        string                    `json:"client"`
	Type          string                    `json:"type"`
	Meta          map[string]jsontext.Value `json:"meta"` // texts and integers, as JSON
	OnFailure     string                    `json:"on_failure"`
	ChunkSize     int64                     `json:"chunk_size"`
	Open          bool                      `json:"open"`
	MetadataBytes int                       `json:"metadata_bytes"`
	RetentionMs   int64                     `json:"retention_ms"`
	Snowflake     int64                     `json:"snowflake"`
	Traceparent   string                    `json:"traceparent"`
	Tracestate    string                    `json:"tracestate"`
	Baggage       string                    `json:"baggage"`

	Text []byte `json:"-"` // the document as the server sent it
}

// UnmarshalJSON decodes a document of the server.
func (b *Batch) UnmarshalJSON(text []byte) error {
	type document Batch
	*b = Batch{Text: bytes.Clone(text)}
	return json.Unmarshal(text, (*document)(b))
}

// Ended reports whether the batch has ended. The status of an ended batch with attributes never changes.
func (b *Batch) Ended() bool {
	return b.Status == "completed" || b.Status == "failed" || b.Status == "cancelled"
}

// BatchProgress is how many jobs of a batch have ended, and how fast. EstimateMs is how long the rest takes at the
// present rate; nil if that is not known.
type BatchProgress struct {
	Ended      int64   `json:"ended"`
	PerSecond  float64 `json:"per_second"`
	EstimateMs *int64  `json:"estimate_ms"`
}

// Values of NewBatch.OnFailure: they decide about the other jobs of a batch when one fails for good.
const (
	Continue   = "continue"
	CancelRest = "cancel_rest"
)

// NewBatch describes a batch that is to be created. The zero value of a field means the server's default.
type NewBatch struct {
	Name        string         `json:"name,omitzero"`
	Client      string         `json:"client,omitzero"` // for jobs that give none, as are Type and RetentionMs
	Type        string         `json:"type,omitzero"`
	RetentionMs *int64         `json:"retention_ms,omitzero"` // also of the batch, after its end
	Meta        map[string]any `json:"meta,omitzero"`         // of texts and integers; jobs inherit it
	Metadata    []byte         `json:"metadata_b64,omitzero"` // at most 1 MiB, which the server does not interpret
	OnFailure   string         `json:"on_failure,omitzero"`   // Continue or CancelRest
	ChunkSize   int64          `json:"chunk_size,omitzero"`   // how many operations of the producer a job has
	Open        bool           `json:"open,omitzero"`         // AddToBatch adds jobs, until CloseBatch
	Paused      bool           `json:"paused,omitzero"`       // until ResumeBatch
	Tracestate  string         `json:"tracestate,omitzero"`
	Baggage     string         `json:"baggage,omitzero"`
	// Key is an idempotency key. "" means a new one: see NewKey.
	Key string `json:"-"`
}

// CreateBatch creates a batch with attributes, and jobs in it: all or none. The limits of CreateMany apply. CreateBatch
// is repeated when the answer is lost.
func (c *Client) CreateBatch(ctx context.Context, b NewBatch, jobs []NewJob) (Created, error) {
	if b.Key == "" {
		b.Key = NewKey()
	}
	bodies, err := c.createBodies(jobs, c.repeatOf(b.Key))
	if err != nil {
		return Created{}, err
	}
	return c.create(ctx, transport.New(http.MethodPost, "/jobs/create").With(struct {
		Batch NewBatch     `json:"batch"`
		Jobs  []createBody `json:"jobs"`
	}{b, bodies}), CreateOptions{Key: b.Key})
}

// AddToBatch adds jobs to an open batch. The limits of CreateMany apply. AddToBatch always sends an idempotency key, so
// it is repeated when the answer is lost. It returns ErrConflict if the batch is not open or has ended, and ErrNotFound
// if there is no such batch.
func (c *Client) AddToBatch(ctx context.Context, batchID string, jobs []NewJob, o CreateOptions) (Created, error) {
	if o.Key == "" {
		o.Key = NewKey()
	}
	bodies, err := c.createBodies(jobs, c.repeatOf(o.Key))
	if err != nil {
		return Created{}, err
	}
	return c.create(ctx, about(http.MethodPost, "/batches/", batchID, "/jobs").With(bodies), o)
}

// CloseBatch declares that an open batch gets no more jobs. ResumeBatch lets runners claim the jobs of a paused batch.
// Both return the batch after the change, and are repeated when the answer is lost.
func (c *Client) CloseBatch(ctx context.Context, id string) (Batch, error) {
	return c.askBatch(ctx, about(http.MethodPost, "/batches/", id, "/close"))
}

// ResumeBatch lets runners claim the jobs of a paused batch; see CloseBatch.
func (c *Client) ResumeBatch(ctx context.Context, id string) (Batch, error) {
	return c.askBatch(ctx, about(http.MethodPost, "/batches/", id, "/resume"))
}

// Batch returns the document of a batch, or ErrNotFound if there is no such batch, or the server no longer keeps it.
// Batch is repeated when the answer is lost.
func (c *Client) Batch(ctx context.Context, id string) (Batch, error) {
	return c.askBatch(ctx, about(http.MethodGet, "/batches/", id, ""))
}

// askBatch sends a request that is answered with the document of a batch. If the error of its job cannot be decoded, the
// batch has it as the server sent it.
func (c *Client) askBatch(ctx context.Context, r transport.Request) (Batch, error) {
	b, err := transport.Ask[Batch](ctx, &c.conn, r)
	if err == nil && c.decodeError(&b.Error) == nil {
		if text, failed := c.DecodeDocument(b.Text); failed == nil {
			b.Text = text
		}
	}
	return b, err
}

// maxBatchWait is how long one request waits for a batch.
const maxBatchWait = 30 * time.Second

// AwaitBatch waits until a batch has ended or ctx ends, and returns its document.
func (c *Client) AwaitBatch(ctx context.Context, id string) (Batch, error) {
	r := about(http.MethodGet, "/batches/", id, "")
	r.Wait, r.Query = maxBatchWait, url.Values{"wait_ms": {strconv.FormatInt(maxBatchWait.Milliseconds(), 10)}}
	for {
		b, err := c.askBatch(ctx, r)
		if err != nil || b.Ended() {
			return b, err
		}
	}
}

// BatchMetadata returns the metadata of a batch, or nil if it has none. The error is ErrNotFound if there is no such
// batch.
func (c *Client) BatchMetadata(ctx context.Context, id string) ([]byte, error) {
	a, err := c.conn.Do(ctx, about(http.MethodGet, "/batches/", id, "/metadata"))
	if err != nil || a.Status == http.StatusNoContent {
		return nil, err
	}
	return a.Body, nil
}

// BatchesQuery selects the batches of a list. A zero field does not restrict the list.
type BatchesQuery struct {
	Status, Client, Type, Name string
	NamePrefix                 string         // the list is in the order of names; not with Name
	Meta                       map[string]any // texts and integers that must be in the meta of a batch
	Order                      string         // "oldest", the default, or "newest"; not with NamePrefix
	After                      string         // the list begins after this id
	PageSize                   int            // 1 to 1000; 0 means the server's default
}

// Batches yields the batches of a query in the order of the query. An error ends the list. A page is read again when the
// answer is lost.
func (c *Client) Batches(ctx context.Context, q BatchesQuery) iter.Seq2[Batch, error] {
	r := transport.Get("/batches")
	r.Query = url.Values{}
	for name, value := range map[string]string{
		"status": q.Status, "client": q.Client, "type": q.Type, "name": q.Name, "name_prefix": q.NamePrefix, "order": q.Order, "after": q.After,
	} {
		if value != "" {
			r.Query.Set(name, value)
		}
	}
	if q.PageSize != 0 {
		r.Query.Set("limit", strconv.Itoa(q.PageSize))
	}
	for name, value := range q.Meta {
		r.Query.Set("meta."+name, fmt.Sprint(value))
	}
	return transport.List[Batch](ctx, &c.conn, r, "batches")
}
