package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// streamWork sets the round of a point in streams. Each stream has as many outstanding jobs as a batch has. The work
// create sends creates of single jobs. A lifecycle begins with a create, and ends with the answer to the completion of a
// job that the server has sent. In a drain the jobs exist before; the server sends them in runs, one claim for all the
// credit, and one request completes the claim. The time of a call is the time of the create, of the lifecycle, or of the
// completion.
func streamWork(tb testing.TB, p matrix.Point, s *daybooktest.Process, l *Load, w *matrix.Workload) {
	streams := make([]*streamLoad, p.Conns)
	for i := range streams {
		streams[i] = openStream(tb, s.URL(), p)
	}
	if p.Work != "drain" { // a round costs as much as single jobs do
		w.Calls = min(w.Calls, max(p.Conns, maxStreamJobs/p.Batch))
	}
	var created atomic.Int64
	w.Round = func(ctx context.Context, callers []*matrix.Caller) error {
		r := &streamRound{jobs: int64(w.Calls * p.Batch), failed: make(chan error, 1), ended: make(chan struct{}), created: &created}
		r.left.Store(r.jobs)
		for i, s := range streams {
			if err := s.begin(ctx, r, callers[i]); err != nil {
				return err
			}
		}
		select {
		case <-r.ended:
		case err := <-r.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.Work != "create" {
			if err := pause(ctx, streams); err != nil {
				return err
			}
		}
		_, err := applied(ctx, l)
		return err
	}
}

// maxStreamJobs bounds the jobs of a round in which each job is created by a separate request.
const maxStreamJobs = 10_000

// pause takes the credit of all streams away. They then get no jobs, so that a backlog stays.
func pause(ctx context.Context, streams []*streamLoad) error {
	for _, s := range streams {
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
	for _, s := range streams {
		select {
		case <-s.paused:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.mu.Lock()
		s.caller = &matrix.Caller{} // for outstanding completions of the backlog
		s.mu.Unlock()
	}
	return nil
}

// streamRound is the work that the streams share.
type streamRound struct {
	jobs    int64
	left    atomic.Int64 // jobs that no stream has created yet
	done    atomic.Int64
	created *atomic.Int64
	ended   chan struct{} // closed when all jobs are done
	failed  chan error
}

func (r *streamRound) add(n int) {
	if done := r.done.Add(int64(n)); done >= r.jobs && done-int64(n) < r.jobs {
		close(r.ended)
	}
}

func (r *streamRound) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// streamLoad is one stream. It does as little work as possible.
type streamLoad struct {
	p       matrix.Point
	conn    *websocket.Conn
	payload string

	mu     sync.Mutex // guards the fields below
	round  *streamRound
	caller *matrix.Caller
	n      int
	out    []byte
	began  []time.Time           // when the outstanding creates began, in their order
	sent   map[int]streamRequest // requests without an answer whose number counts
	paused chan struct{}         // closed by the answer to the request that takes the credit away
}

type streamRequest struct {
	began time.Time
	jobs  int
	pause bool
}

const firstSubscription = 2

func openStream(tb testing.TB, url string, p matrix.Point) *streamLoad {
	tb.Helper()
	conn, _, err := websocket.Dial(tb.Context(), "ws"+strings.TrimPrefix(url, "http")+"/stream", &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}})
	testkit.NoError(tb, err)
	ended := make(chan struct{})
	tb.Cleanup(func() { _ = conn.CloseNow(); <-ended })
	conn.SetReadLimit(-1)
	s := &streamLoad{p: p, conn: conn, payload: string(works.Lines(1, p.Size)[:p.Size]), sent: map[int]streamRequest{}}
	switch p.Work {
	case "drain":
		s.request(`"hello":{"runner_id":"load","jobs":"runs"}`)
		s.request(`"subscribe":{"credit":0}`)
	case "lifecycle":
		s.request(`"hello":{"runner_id":"load"}`)
		s.request(`"subscribe":{"credit":0}`)
	}
	testkit.NoError(tb, s.flush(tb.Context()))
	go func() {
		defer close(ended)
		s.read()
	}()
	return s
}

func (s *streamLoad) request(text string) (n int) {
	s.n++
	s.out = fmt.Appendf(s.out, "{\"n\":%d,%s}\n", s.n, text)
	return s.n
}

func (s *streamLoad) flush(ctx context.Context) error {
	if len(s.out) == 0 {
		return nil
	}
	err := s.conn.Write(ctx, websocket.MessageText, s.out)
	s.out = s.out[:0]
	return err
}

// begin begins the stream's part of a round.
func (s *streamLoad) begin(ctx context.Context, r *streamRound, c *matrix.Caller) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round, s.caller = r, c
	if s.p.Work != "create" {
		s.credit(s.p.Batch)
	}
	if s.p.Work != "drain" {
		for range s.p.Batch {
			s.create()
		}
	}
	return s.flush(ctx)
}

func (s *streamLoad) credit(n int) int {
	return s.request(fmt.Sprintf(`"credit":{"subscription":%d,"credit":%d}`, firstSubscription, n))
}

func (s *streamLoad) pause(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = make(chan struct{})
	s.sent[s.credit(0)] = streamRequest{pause: true}
	return s.flush(ctx)
}

// create creates the next job of the round, if there is one.
func (s *streamLoad) create() {
	if s.round.left.Add(-1) < 0 {
		return
	}
	client, typ := s.p.Queue(int(s.round.created.Add(1)))
	n := s.request(`"create":{"client":"` + client + `","type":"` + typ + `","payload":"` + s.payload + `"}`)
	if s.p.Work == "create" {
		s.sent[n] = streamRequest{began: time.Now(), jobs: 1}
	} else {
		s.began = append(s.began, time.Now())
	}
}

// read handles messages until the connection ends.
func (s *streamLoad) read() {
	for {
		kind, message, err := s.conn.Read(context.Background())
		s.mu.Lock()
		if err == nil && kind == websocket.MessageBinary {
			err = s.completeClaim(message)
		} else if err == nil {
			err = s.handle(message)
		}
		if err == nil {
			err = s.flush(context.Background())
		}
		if err != nil && s.round != nil {
			s.round.fail(err)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// completeClaim completes all jobs of a claim in runs.
func (s *streamLoad) completeClaim(message []byte) error {
	claim := claimID(message)
	_, text, _ := bytes.Cut(message, []byte(" jobs="))
	text, _, _ = bytes.Cut(text, []byte(" "))
	jobs, err := strconv.Atoi(string(text))
	if err != nil || claim == "" {
		return fmt.Errorf("a claim without an id or a number of jobs: %.200s", message)
	}
	n := s.request(`"complete":{"claim_id":"` + claim + `","status":"completed"}`)
	s.sent[n] = streamRequest{began: time.Now(), jobs: jobs}
	return nil
}

var (
	numberKey = []byte(`{"n":`)
	jobIDKey  = []byte(`{"job_id":"`)
	jobsKey   = []byte(`"jobs":[`)
	statusKey = []byte(`"status":"completed"`)
)

// handle handles the lines of a text message: answers, and jobs.
func (s *streamLoad) handle(message []byte) error {
	for line := range bytes.Lines(message) {
		if bytes.Contains(line, []byte(`"problem"`)) {
			return errors.New(string(line))
		}
		if _, jobs, pushed := bytes.Cut(line, jobsKey); pushed {
			s.completeEach(claimID(line), jobs)
			continue
		}
		if s.p.Work == "lifecycle" {
			if bytes.Contains(line, statusKey) {
				if len(s.began) > 0 { // otherwise it was a job of the backlog, or of another stream
					s.caller.Latencies = append(s.caller.Latencies, time.Since(s.began[0]))
					s.began = s.began[1:]
				}
				s.round.add(1)
				s.create()
				continue
			}
		}
		text, _, _ := bytes.Cut(bytes.TrimPrefix(line, numberKey), []byte(","))
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return fmt.Errorf("an answer without a number: %.200s", line)
		}
		request, known := s.sent[n]
		delete(s.sent, n)
		switch {
		case request.pause:
			close(s.paused)
		case known:
			s.caller.Latencies = append(s.caller.Latencies, time.Since(request.began))
			s.round.add(request.jobs)
			if s.p.Work == "create" {
				s.create()
			}
		}
	}
	return nil
}

// completeEach completes jobs in JSON one by one.
func (s *streamLoad) completeEach(claim string, jobs []byte) {
	for {
		at := bytes.Index(jobs, jobIDKey)
		if at < 0 {
			return
		}
		jobs = jobs[at+len(jobIDKey):]
		s.request(`"complete":{"job_id":"` + string(jobs[:idBytes]) + `","claim_id":"` + claim + `","code":"ok"}`)
	}
}
