package client

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/job"
)

// joinedCreates is the stream that creates share which a program makes at the same time. It is opened when two are under
// way, and closed when there was none for a while. A create that finds no stream is an HTTP request. None waits for
// another, and the server answers each when it is on disk.
type joinedCreates struct {
	mu       sync.Mutex // guards the fields below
	underWay int
	stream   *Stream
	opening  bool
	retryAt  time.Time   // when another stream may be opened
	idle     *time.Timer // closes the stream
}

// idleStream is how long a stream without creates stays open. net/http keeps its idle connections as long.
const idleStream = 90 * time.Second

// begin counts a create, and returns the stream for it; nil if there is none.
func (j *joinedCreates) begin(c *Client) *Stream {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.underWay++
	if j.stream != nil && j.stream.Err() != nil {
		j.stream = nil
	}
	if j.stream == nil && j.underWay > 1 && !j.opening && !time.Now().Before(j.retryAt) {
		j.opening = true
		go j.open(c)
	}
	return j.stream
}

// end stops to count a create.
func (j *joinedCreates) end() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.underWay--; j.underWay > 0 || j.stream == nil {
		return
	}
	if j.idle == nil {
		j.idle = time.AfterFunc(idleStream, j.closeIdle)
	} else {
		j.idle.Reset(idleStream)
	}
}

func (j *joinedCreates) open(c *Client) {
	s, err := c.OpenStream(context.Background(), StreamOptions{})
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.opening = false; err == nil {
		j.stream = s
		return
	}
	wait := time.Second
	if errors.Is(err, errNoStreams) {
		wait = withoutStreams
	}
	j.retryAt = time.Now().Add(wait)
	c.o.Logger.Debug("creates are sent one by one", "for", wait, "error", err)
}

func (j *joinedCreates) closeIdle() {
	j.mu.Lock()
	s := j.stream
	if j.underWay > 0 || s == nil {
		j.mu.Unlock()
		return
	}
	j.stream = nil
	j.mu.Unlock()
	s.Close()
}

// over returns a client whose requests with a verb travel in a stream.
func (c *Client) over(s *Stream) *Client {
	p := *c
	p.stream = new(atomic.Pointer[Stream])
	p.stream.Store(s)
	return &p
}

// jobDefaults are the attributes of jobs that are created without them.
type jobDefaults struct {
	Priority    int   `json:"priority"`
	MaxAttempts int   `json:"max_attempts"`
	LeaseMs     int64 `json:"lease_ms"`
}

// created returns the document of a job that was created in a stream, whose answer has what the request and the
// server's defaults do not say.
func (n *NewJob) created(a answer) (*Job, error) {
	var doc struct {
		JobID string `json:"job_id"`
		RunAt int64  `json:"run_at"`
	}
	if err := decode(a, &doc); err != nil {
		return nil, err
	}
	id, err := job.ParseID(doc.JobID)
	if err != nil {
		return nil, a.unreadable(err)
	}
	d := &a.stream.defaults
	j := &Job{
		ID: doc.JobID, Client: n.Client, Type: n.Type, Status: "pending", Priority: d.Priority, BinaryAddr: n.BinaryAddr, InputAddr: n.InputAddr,
		MaxAttempts: d.MaxAttempts, LeaseMs: d.LeaseMs, RunAt: doc.RunAt, CreatedAt: id.At(), UpdatedAt: id.At(), ExpiresAt: n.ExpiresAt,
		TimeoutMs: n.TimeoutMs, Traceparent: n.Traceparent, Meta: maps.Clone(n.Meta),
	}
	if j.Client == "" {
		j.Client = job.DefaultName
	}
	if j.Type == "" {
		j.Type = job.DefaultName
	}
	if doc.RunAt > 0 {
		j.Status = "deferred"
	}
	if n.Priority != nil {
		j.Priority = *n.Priority
	}
	if n.MaxAttempts != 0 {
		j.MaxAttempts = n.MaxAttempts
	}
	if n.LeaseMs != 0 {
		j.LeaseMs = n.LeaseMs
	}
	if len(n.Meta) == 0 {
		j.Meta = nil
	}
	value, b64, err := wireContent(n.Kind, n.Payload)
	if err == nil && value != nil {
		value, err = json.Marshal(value) // as the request was encoded
	}
	if err == nil {
		j.Payload, j.Kind, err = content(value, bytes.Clone(b64))
	}
	if err != nil {
		return nil, a.unreadable(err)
	}
	if j.BinaryAddr != "" {
		j.Kind = WASI
	}
	return j, nil
}
