package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client/internal/transport"
	"github.com/daybookq/daybook/client/problem"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// joinedCreates are the creates that a program makes at the same time. They share a stream, which is opened when two
// creates run, and closed when none has run for a while. A create without a stream is an HTTP request.
//
// A create is sent at once if no request is outstanding. Otherwise it waits for the answer to that request, but not
// longer than createDelay, and not if the waiting creates fill a request. All waiting creates are sent as one request
// in runs. The server answers it when all are on disk. A request that was not sent, or that the server refuses, stores
// nothing. Each of its creates is then sent in a separate HTTP request, so that none fails because of another.
type joinedCreates struct {
	// A create counts itself in underWay before it reads stream. closeIdle removes the stream with mu held, and only if
	// underWay is 0. A create that read the stream just before that is added after it. sendDue then finds no stream,
	// and the create becomes a separate request.
	underWay atomic.Int64           // creates
	stream   atomic.Pointer[Stream] // nil: there is none; changed with mu held

	mu       sync.Mutex // guards the fields below
	opening  bool
	retryAt  time.Time   // when the next stream may be opened
	idle     *time.Timer // closes the stream
	waiting  []*joinedCreate
	requests int         // outstanding
	sentAt   time.Time   // when the last one was sent
	late     *time.Timer // sends the creates that have waited for createDelay; nil: it does not run
}

// joinedCreate is a create that shares a request.
type joinedCreate struct {
	run     runs.NewRun // without the payload
	head    string      // of run; creates with equal heads can share one
	payload []byte
	bytes   int               // of payload in a request, at most
	answer  chan joinedAnswer // capacity 1
	request *sync.WaitGroup   // counts the callers of the request that it was sent with; nil: it was not sent
}

// joinedAnswer is the answer to a create, without the fields that the request has.
type joinedAnswer struct {
	id       job.ID
	runAt    int64 // 0: pending at once
	defaults *jobDefaults
	err      error
}

const (
	// idleStream is how long a stream without creates stays open. net/http keeps its idle connections as long.
	idleStream = 90 * time.Second
	// createDelay is how long creates wait for the answer to the previous request. A server that is near and has a fast
	// disk answers sooner.
	createDelay = 10 * time.Millisecond
	// maxCreateRequests is how many requests with creates may be outstanding.
	maxCreateRequests = 8
	// maxJoinedCreates and maxJoinedBytes bound the creates of one request, so that they can share a record of the
	// server's journal with the creates of other requests.
	maxJoinedCreates, maxJoinedBytes = 256, 16 << 10
)

// errNotJoined says that a create was not stored, and must be sent as a separate request.
var errNotJoined = errors.New("the create must be a request of its own")

// begin counts a create. It returns nil if the create must be a separate request.
func (j *joinedCreates) begin(c *Client, n *NewJob) *joinedCreate {
	if !j.count(c) {
		return nil
	}
	return n.joinable()
}

// count counts a create, and reports whether there is a stream for it.
func (j *joinedCreates) count(c *Client) bool {
	underWay := j.underWay.Add(1)
	if s := j.stream.Load(); s != nil && !s.ended() {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.stream.Load()
	if s != nil && s.ended() {
		s = nil
		j.stream.Store(nil)
	}
	if s == nil && underWay > 1 && !j.opening && !time.Now().Before(j.retryAt) {
		j.opening = true
		go j.Open(c)
	}
	return s != nil
}

// joinable returns a create that can be sent with others; nil if it must be a separate request.
func (n *NewJob) joinable() *joinedCreate {
	r, payload, ok := n.newRun()
	if !ok || len(payload) > maxJoinedBytes {
		return nil
	}
	own := &joinedCreate{run: r, head: headOf(&r), payload: payload, bytes: job.LenFrame.Size(len(payload)), answer: make(chan joinedAnswer, 1)}
	if len(own.head)+own.bytes > maxJoinedBytes {
		return nil
	}
	return own
}

// create sends a create together with others. If the error wraps errNotJoined, nothing was stored.
func (j *joinedCreates) create(ctx context.Context, c *Client, own *joinedCreate) joinedAnswer {
	if ctx.Err() != nil {
		return unsent(ctx)
	}
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
		return unsent(ctx)
	}
	defer own.request.Done()
	select {
	case a := <-own.answer: // the answer has arrived
		return a
	default:
		return joinedAnswer{err: fmt.Errorf("create: %w: %w", problem.ErrUnknown, context.Cause(ctx))}
	}
}

// unsent returns the error of a create whose context has ended before it was sent.
func unsent(ctx context.Context) joinedAnswer {
	return joinedAnswer{err: fmt.Errorf("create: %w: %w", problem.ErrUnavailable, context.Cause(ctx))}
}

// withdraw removes a create that was not sent yet, so that it will not be sent. It reports whether it did.
func (j *joinedCreates) withdraw(own *joinedCreate) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.Index(j.waiting, own)
	if at >= 0 {
		j.waiting = slices.Delete(j.waiting, at, at+1)
	}
	return at >= 0
}

// sendDue sends the waiting creates if they are due; otherwise it sets the timer that does. j.mu is held.
func (j *joinedCreates) sendDue(c *Client) {
	for len(j.waiting) > 0 && j.requests < maxCreateRequests {
		n, full := j.next()
		wait := createDelay - time.Since(j.sentAt)
		if j.requests > 0 && wait > 0 && !full {
			j.sendAfter(c, wait)
			return
		}
		creates, callers := j.take(n)
		j.requests++
		j.sentAt = time.Now()
		go j.send(c, j.stream.Load(), creates, callers)
	}
}

// sendAfter calls sendDue after a time, unless an earlier call is due. j.mu is held.
func (j *joinedCreates) sendAfter(c *Client, wait time.Duration) {
	if j.late != nil {
		return
	}
	j.late = time.AfterFunc(wait, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.late = nil
		j.sendDue(c)
	})
}

// next returns how many of the waiting creates belong to the next request, and whether it is full. j.mu is held.
func (j *joinedCreates) next() (n int, full bool) {
	bytes, head := 0, ""
	for _, own := range j.waiting {
		bytes += own.bytes
		if own.head != head {
			head = own.head
			bytes += len(head)
		}
		if n > 0 && bytes > maxJoinedBytes {
			return n, true
		}
		if n++; n == maxJoinedCreates {
			return n, true
		}
	}
	return n, false
}

// take removes the creates of the next request from the waiting ones. j.mu is held.
func (j *joinedCreates) take(n int) (creates []*joinedCreate, callers *sync.WaitGroup) {
	creates, callers = slices.Clone(j.waiting[:n]), new(sync.WaitGroup)
	callers.Add(n)
	for _, own := range creates {
		own.request = callers
	}
	j.waiting = slices.Delete(j.waiting, 0, n)
	return creates, callers
}

// send sends creates as one request, and after the answer the creates that have waited for it.
func (j *joinedCreates) send(c *Client, s *Stream, creates []*joinedCreate, callers *sync.WaitGroup) {
	made, err := s.createAll(c, creates)
	for i, own := range creates {
		a := joinedAnswer{err: err}
		if err == nil {
			a = joinedAnswer{id: made.first.WithLine(made.first.Line() + i), runAt: made.runAt(i), defaults: &s.defaults}
		}
		own.answer <- a
	}
	callers.Wait() // callers that create one job after the other add their next create before the next request is sent
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests--
	j.sendDue(c)
}

// madeCreates is the answer to several creates. The ids of their jobs are consecutive.
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
	if s == nil { // the stream has ended since the creates were added
		return made, errNotJoined
	}
	a, err := s.onceInRuns(context.Background(), c, transport.Request{Verb: "create", Body: appendRuns(nil, creates), Repeat: transport.SentOnce})
	switch {
	case errors.Is(err, problem.ErrUnknown):
		return made, err
	case err != nil:
		return made, errors.Join(errNotJoined, err)
	}
	var doc struct {
		Count   int     `json:"count"`
		FirstID job.ID  `json:"first_id"`
		RunAt   []int64 `json:"run_at"`
	}
	if err := transport.Decode(a, &doc); err != nil {
		return made, err
	}
	if doc.FirstID.IsZero() || doc.FirstID.Line()+len(creates) > job.MaxLines {
		return made, a.Unreadable(fmt.Errorf("%d creates were answered with the first id %v", len(creates), doc.FirstID))
	}
	if doc.Count != len(creates) || doc.RunAt != nil && len(doc.RunAt) != len(creates) {
		return made, a.Unreadable(fmt.Errorf("%d creates were answered with %d jobs and %d times", len(creates), doc.Count, len(doc.RunAt)))
	}
	return madeCreates{doc.FirstID, doc.RunAt}, nil
}

// end removes a create from the count.
func (j *joinedCreates) end() {
	if j.underWay.Add(-1) > 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closeLater()
}

// closeLater sets the timer that closes the stream, unless a create runs. j.mu is held.
func (j *joinedCreates) closeLater() {
	if j.underWay.Load() > 0 || j.stream.Load() == nil {
		return
	}
	if j.idle == nil {
		j.idle = time.AfterFunc(idleStream, j.closeIdle)
	} else {
		j.idle.Reset(idleStream)
	}
}

func (j *joinedCreates) Open(c *Client) {
	s, err := c.OpenStream(context.Background(), StreamOptions{})
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.opening = false; err == nil {
		j.stream.Store(s)
		j.closeLater() // the creates may have ended since
		return
	}
	wait := time.Second
	if errors.Is(err, ErrNoStreams) {
		wait = time.Minute // the server offers none
	}
	j.retryAt = time.Now().Add(wait)
	c.conn.Logger.Debug("creates are sent one by one", "for", wait, "error", err)
}

func (j *joinedCreates) closeIdle() {
	j.mu.Lock()
	s := j.stream.Load()
	if j.underWay.Load() > 0 || s == nil {
		j.mu.Unlock()
		return
	}
	j.stream.Store(nil)
	j.mu.Unlock()
	s.Close()
}
