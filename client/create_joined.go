package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// joinedCreates are the creates that a program makes at the same time. They share a stream, which is opened when two are
// under way, and closed when there was none for a while. A create that finds no stream is an HTTP request.
//
// A create is sent at once if no request is under way. Otherwise it waits for the answer to that request, but not longer
// than createDelay, and not until there are many. What waits is sent as the list of one request. The server answers it
// when all are on disk. A request whose creates the server refuses, or that was not sent, stores nothing. Each of its
// creates is then made by an HTTP request of its own, so that none fails because of another.
type joinedCreates struct {
	mu       sync.Mutex // guards the fields below
	underWay int
	stream   *Stream
	opening  bool
	retryAt  time.Time   // when another stream may be opened
	idle     *time.Timer // closes the stream
	waiting  []*joinedCreate
	requests int         // that are under way
	sentAt   time.Time   // when the last one was sent
	late     *time.Timer // sends what has waited for createDelay; nil: it does not run
}

// joinedCreate is a create that shares a request.
type joinedCreate struct {
	run     runs.NewRun // without the payload
	head    string      // of run; creates with equal heads can share one
	payload []byte
	answer  chan joinedAnswer // capacity 1
	request *sync.WaitGroup   // of the callers of the request that it was sent with; nil: it was not sent
}

// joinedAnswer is the answer to a create, as far as the request does not say it.
type joinedAnswer struct {
	id       job.ID
	runAt    int64 // 0: pending at once
	defaults *jobDefaults
	err      error
}

const (
	// idleStream is how long a stream without creates stays open. net/http keeps its idle connections as long.
	idleStream = 90 * time.Second
	// createDelay is how long creates wait for the answer to the request before. A server with a fast disk that is near
	// answers sooner.
	createDelay = 10 * time.Millisecond
	// maxCreateRequests is how many requests with creates may be under way.
	maxCreateRequests = 8
	// maxJoinedCreates and maxJoinedBytes bound the creates of one request, as far as they share a record of the server's
	// journal with those of other requests.
	maxJoinedCreates, maxJoinedBytes = 256, 16 << 10
)

// errNotJoined says that a create was not stored, and must be sent as a request of its own.
var errNotJoined = errors.New("the create must be a request of its own")

// begin counts a create. It returns nil if the create must be a request of its own.
func (j *joinedCreates) begin(c *Client, n *NewJob) *joinedCreate {
	if !j.count(c) {
		return nil
	}
	return n.joinable()
}

// count counts a create, and reports whether there is a stream for it.
func (j *joinedCreates) count(c *Client) bool {
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
	return j.stream != nil
}

// joinable returns a create that can be sent with others; nil if it must be a request of its own.
func (n *NewJob) joinable() *joinedCreate {
	r, payload, ok := n.newRun()
	if !ok || len(payload) > maxJoinedBytes {
		return nil
	}
	return &joinedCreate{run: r, head: headOf(&r), payload: payload, answer: make(chan joinedAnswer, 1)}
}

// create sends a create with others. If the error wraps errNotJoined, nothing was stored.
func (j *joinedCreates) create(ctx context.Context, c *Client, own *joinedCreate) joinedAnswer {
	j.mu.Lock()
	j.waiting = append(j.waiting, own)
	j.sendDue(c)
	j.mu.Unlock()
	select {
	case a := <-own.answer:
		own.request.Done()
		return a
	case <-ctx.Done():
	}
	if j.withdraw(own) {
		return joinedAnswer{err: fmt.Errorf("create: %w: %w", ErrUnavailable, context.Cause(ctx))}
	}
	defer own.request.Done()
	select {
	case a := <-own.answer: // it arrived meanwhile
		return a
	default:
		return joinedAnswer{err: fmt.Errorf("create: %w: %w", ErrUnknown, context.Cause(ctx))}
	}
}

// withdraw reports whether a create was not sent, and then will not be.
func (j *joinedCreates) withdraw(own *joinedCreate) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.Index(j.waiting, own)
	if at >= 0 {
		j.waiting = slices.Delete(j.waiting, at, at+1)
	}
	return at >= 0
}

// sendDue sends what waits, if it is time for that. j.mu is held.
func (j *joinedCreates) sendDue(c *Client) {
	wait := createDelay - time.Since(j.sentAt)
	switch {
	case len(j.waiting) == 0 || j.requests == maxCreateRequests:
	case j.requests == 0 || wait <= 0 || len(j.waiting) >= maxJoinedCreates:
		creates, callers := j.take()
		j.requests++
		j.sentAt = time.Now()
		go j.send(c, j.stream, creates, callers)
	case j.late == nil:
		j.late = time.AfterFunc(wait, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.late = nil
			j.sendDue(c)
		})
	}
}

// take takes the creates of the next request. j.mu is held.
func (j *joinedCreates) take() (creates []*joinedCreate, callers *sync.WaitGroup) {
	n, bytes := 0, 0
	for n < min(len(j.waiting), maxJoinedCreates) && bytes <= maxJoinedBytes {
		bytes += len(j.waiting[n].payload)
		n++
	}
	creates, callers = slices.Clone(j.waiting[:n]), new(sync.WaitGroup)
	callers.Add(n)
	for _, own := range creates {
		own.request = callers
	}
	j.waiting = slices.Delete(j.waiting, 0, n)
	return creates, callers
}

// send sends creates as one request, and then what waits meanwhile.
func (j *joinedCreates) send(c *Client, s *Stream, creates []*joinedCreate, callers *sync.WaitGroup) {
	made, err := s.createAll(c, creates)
	for i, own := range creates {
		a := joinedAnswer{err: err}
		if err == nil {
			a = joinedAnswer{id: made.first.WithLine(made.first.Line() + i), runAt: made.runAt(i), defaults: &s.defaults}
		}
		own.answer <- a
	}
	callers.Wait() // those that create one job after the other add the next ones before another request is sent
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests--
	j.sendDue(c)
}

// madeCreates is the answer to several creates. The ids of their jobs count up.
type madeCreates struct {
	first  job.ID
	runAts []int64
}

func (m *madeCreates) runAt(i int) int64 {
	if m.runAts == nil {
		return 0
	}
	return m.runAts[i]
}

// createAll sends creates as one request. If the error wraps errNotJoined, nothing was stored.
func (s *Stream) createAll(c *Client, creates []*joinedCreate) (made madeCreates, err error) {
	if s == nil { // it has ended since the creates were added
		return made, errNotJoined
	}
	a, err := s.onceInRuns(context.Background(), c, request{verb: "create", body: appendRuns(nil, creates), repeat: sentOnce})
	switch {
	case errors.Is(err, ErrUnknown):
		return made, err
	case err != nil:
		return made, errors.Join(errNotJoined, err)
	}
	var doc struct {
		Count   int     `json:"count"`
		FirstID job.ID  `json:"first_id"`
		RunAt   []int64 `json:"run_at"`
	}
	if err := decode(a, &doc); err != nil {
		return made, err
	}
	if doc.Count != len(creates) || doc.RunAt != nil && len(doc.RunAt) != len(creates) {
		return made, a.unreadable(fmt.Errorf("%d creates were answered with %d jobs and %d times", len(creates), doc.Count, len(doc.RunAt)))
	}
	return madeCreates{doc.FirstID, doc.RunAt}, nil
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

// jobDefaults are the attributes of jobs that are created without them.
type jobDefaults struct {
	Priority    int   `json:"priority"`
	MaxAttempts int   `json:"max_attempts"`
	LeaseMs     int64 `json:"lease_ms"`
}

// created returns the document of a job that was created in a stream.
func (n *NewJob) created(own *joinedCreate, a joinedAnswer) *Job {
	id, d := a.id, a.defaults
	j := &Job{
		ID: id.String(), Client: n.Client, Type: n.Type, Status: "pending", Priority: d.Priority, BinaryAddr: n.BinaryAddr, InputAddr: n.InputAddr,
		MaxAttempts: d.MaxAttempts, LeaseMs: d.LeaseMs, RunAt: a.runAt, CreatedAt: id.At(), UpdatedAt: id.At(), ExpiresAt: n.ExpiresAt,
		TimeoutMs: n.TimeoutMs, Traceparent: n.Traceparent, Meta: maps.Clone(n.Meta),
	}
	if j.Client == "" {
		j.Client = job.DefaultName
	}
	if j.Type == "" {
		j.Type = job.DefaultName
	}
	if a.runAt > 0 {
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
	switch own.run.Kind {
	case job.WASI:
		j.Kind = WASI
	case job.Text, job.JSON, job.Bytes:
		j.Kind, j.Payload = Kind(own.run.Kind.String()), append([]byte{}, own.payload...)
	}
	return j
}
