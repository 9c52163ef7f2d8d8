package daybook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// streams is a session of streams. The callers share at most measure.Connections of them: with more callers, each stream
// has several outstanding requests.
type streams struct {
	streamServer
	runs bool // creates and jobs travel in runs

	mu   sync.Mutex
	open map[int]*stream // by number
}

// streamServer is a process that serves streams.
type streamServer interface {
	Pid() int
	Fill(ctx context.Context, jobs int) error
	Close() error
	URL() string
}

func openStreams(s *server) measure.Session { return newStreams(s, false) }

func openStreamsInRuns(s *server) measure.Session { return newStreams(s, true) }

func newStreams(s streamServer, runs bool) *streams {
	return &streams{streamServer: s, runs: runs, open: map[int]*stream{}}
}

func streamDoes(w measure.Work) bool {
	return w.Kind == measure.Lifecycle || w.Kind == measure.Create && w.Batch == 1
}

// Dial gives a caller a stream that it may share.
func (s *streams) Dial(ctx context.Context, caller int) (measure.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := caller % measure.Connections
	if s.open[number] == nil {
		opened, err := dialStream(ctx, s.URL()+"/stream", s.runs, nil)
		if err != nil {
			return nil, err
		}
		s.open[number] = opened
	}
	return streamConn{s.open[number]}, nil
}

func (s *streams) Close() error {
	for _, opened := range s.open {
		opened.close()
	}
	return s.streamServer.Close()
}

// streamConn creates jobs. Jobs are not claimed in a stream but sent by the server: see Run.
type streamConn struct{ *stream }

func (c streamConn) Create(ctx context.Context, _ int) error {
	return c.create(ctx)
}

func (streamConn) Claim(context.Context, int) (int, error) { return 0, measure.ErrUnsupported }

func (streamConn) Complete(context.Context) error { return measure.ErrUnsupported }

func (streamConn) Close() error { return nil }

var createBody = fmt.Sprintf(`{"payload":"%s"}`, lines(1)[:measure.PayloadBytes])

func (s *streams) Runs(w measure.Work) bool { return w.Kind == measure.Lifecycle }

// Run lets each stream subscribe with as many jobs of credit as callers share it. A caller creates a job, and continues
// when its stream has completed a job: there are as many outstanding jobs as callers.
func (s *streams) Run(ctx context.Context, t *measure.Turn) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := errors.New("all jobs are done")
	finish := sync.OnceFunc(func() {
		t.End()
		stop(done)
	})
	var left, completed atomic.Int64
	left.Store(int64(t.Jobs))
	perStream := max(t.Work.Callers/measure.Connections, 1)
	all := make([]*stream, t.Work.Callers/perStream)
	ended := make([]chan struct{}, len(all)) // a token for each job that the stream has completed
	for i := range all {
		ended[i] = make(chan struct{}, t.Jobs)
		var err error
		all[i], err = dialStream(ctx, s.URL()+"/stream", s.runs, func(claim string, jobs int) {
			// The answer arrives in the goroutine that calls this function, so the function must not wait for it.
			all[i].send("complete", `{"claim_id":"`+claim+`","status":"completed"}`, func(err error) {
				if err != nil {
					stop(err)
				}
				for range jobs {
					select {
					case ended[i] <- struct{}{}:
					case <-ctx.Done():
					}
				}
				if completed.Add(int64(jobs)) >= int64(t.Jobs) { // more if other jobs wait in the queue
					finish()
				}
			})
		})
		if err != nil {
			return err
		}
		defer all[i].close()
		if err := all[i].subscribe(ctx, runnerID(i), perStream); err != nil {
			return err
		}
	}
	t.Begin()
	var group sync.WaitGroup
	for caller := range t.Work.Callers {
		group.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				began := time.Now()
				if err := all[caller/perStream].create(ctx); err != nil {
					stop(err)
					return
				}
				select {
				case <-ended[caller/perStream]:
					t.Add(time.Since(began))
				case <-ctx.Done():
				}
			}
		})
	}
	<-ctx.Done()
	group.Wait()
	if err := context.Cause(ctx); !errors.Is(err, done) {
		return err
	}
	return nil
}

// stream is a connection. One goroutine reads. One goroutine writes all waiting requests in one message. In runs, it
// writes all waiting creates as one request in a separate message.
type stream struct {
	conn   *websocket.Conn
	cancel context.CancelFunc
	runs   bool
	pushed func(claim string, jobs int) // called with jobs that the server has sent
	wake   chan struct{}

	mu      sync.Mutex
	out     []byte        // requests that wait to be written
	creates []func(error) // creates that wait to be written in runs
	last    int           // the number of the last request
	waiting map[int]func(error)
	failed  error // why the stream ended
}

func dialStream(ctx context.Context, url string, runs bool, pushed func(string, int)) (*stream, error) {
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	// The stream outlasts ctx, which may be the context of a dial: close ends it.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stream{conn: conn, cancel: cancel, runs: runs, pushed: pushed, wake: make(chan struct{}, 1), waiting: map[int]func(error){}}
	go s.read(lasting)
	go s.write(lasting)
	return s, nil
}

// close ends both goroutines.
func (s *stream) close() {
	s.cancel()
	_ = s.conn.CloseNow() // the server notices the end of the connection
}

func (s *stream) subscribe(ctx context.Context, runner string, credit int) error {
	jobs := "json"
	if s.runs {
		jobs = "runs"
	}
	if err := s.call(ctx, "hello", fmt.Sprintf(`{"runner_id":%q,"jobs":%q}`, runner, jobs)); err != nil {
		return err
	}
	return s.call(ctx, "subscribe", fmt.Sprintf(`{"credit":%d}`, credit))
}

// create creates a job and waits for the answer.
func (s *stream) create(ctx context.Context) error {
	if !s.runs {
		return s.call(ctx, "create", createBody)
	}
	return wait(ctx, s.sendCreate)
}

// call sends a request and waits for the answer.
func (s *stream) call(ctx context.Context, verb, body string) error {
	return wait(ctx, func(answered func(error)) { s.send(verb, body, answered) })
}

// wait calls send, and waits until send's argument is called.
func wait(ctx context.Context, send func(answered func(error))) error {
	answered := make(chan error, 1)
	send(func(err error) { answered <- err })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send sends a request. answered is called once.
func (s *stream) send(verb, body string, answered func(error)) {
	s.mu.Lock()
	if err := s.failed; err != nil {
		s.mu.Unlock()
		answered(err)
		return
	}
	s.last++
	s.waiting[s.last] = answered
	s.out = fmt.Appendf(s.out, `{"n":%d,"%s":%s}`+"\n", s.last, verb, body)
	s.mu.Unlock()
	s.wakeWriter()
}

// sendCreate sends a create in runs. answered is called once.
func (s *stream) sendCreate(answered func(error)) {
	s.mu.Lock()
	if err := s.failed; err != nil {
		s.mu.Unlock()
		answered(err)
		return
	}
	s.creates = append(s.creates, answered)
	s.mu.Unlock()
	s.wakeWriter()
}

func (s *stream) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) write(ctx context.Context) {
	var message, inRuns []byte
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		runtime.Gosched() // other callers that were woken at the same time send with this message
		s.mu.Lock()
		message, s.out = s.out, message[:0]
		inRuns = s.takeCreates(inRuns[:0])
		s.mu.Unlock()
		var err error
		if len(message) > 0 {
			err = s.conn.Write(ctx, websocket.MessageText, message)
		}
		if err == nil && len(inRuns) > 0 {
			err = s.conn.Write(ctx, websocket.MessageBinary, inRuns)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// createLine is a payload in runs.
var createLine = lines(1)

// takeCreates appends a request with all waiting creates. The caller holds s.mu.
func (s *stream) takeCreates(message []byte) []byte {
	n := len(s.creates)
	if n == 0 {
		return message
	}
	creates := s.creates
	s.creates = nil
	s.last++
	s.waiting[s.last] = func(err error) {
		for _, answered := range creates {
			answered(err)
		}
	}
	message = fmt.Appendf(message, "#:request n=%d\n#:create v=1 batch=none jobs=%d runs=1\n#:run n=%d kind=text frame=line bytes=%d\n",
		s.last, n, n, n*len(createLine))
	for range n {
		message = append(message, createLine...)
	}
	return message
}

func (s *stream) read(ctx context.Context) {
	var message bytes.Buffer
	for {
		kind, r, err := s.conn.Reader(ctx)
		if err == nil {
			message.Reset()
			_, err = message.ReadFrom(r)
		}
		if err == nil {
			err = s.received(kind, message.Bytes())
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *stream) received(kind websocket.MessageType, message []byte) error {
	if kind == websocket.MessageBinary {
		claim, jobs, err := claimedRuns(message)
		if err != nil || s.pushed == nil || jobs == 0 {
			return fmt.Errorf("the server sent %.300q (%w)", message, err)
		}
		s.pushed(claim, jobs)
		return nil
	}
	for line := range bytes.Lines(message) {
		if err := s.line(line); err != nil {
			return err
		}
	}
	return nil
}

// line handles an answer, or jobs. It decodes only what it needs.
func (s *stream) line(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if rest, ok := bytes.CutPrefix(line, []byte(`{"n":`)); ok {
		digits, rest, _ := bytes.Cut(rest, []byte(","))
		n, err := strconv.Atoi(string(digits))
		if err != nil {
			return fmt.Errorf("the server sent %.200q", line)
		}
		s.mu.Lock()
		answered := s.waiting[n]
		delete(s.waiting, n)
		s.mu.Unlock()
		if answered == nil {
			return fmt.Errorf("the server sent an answer to no request: %.200q", line)
		}
		var problem error
		if !bytes.HasPrefix(rest, []byte(`"ok"`)) {
			problem = fmt.Errorf("the server answered %.300q", line)
		}
		answered(problem)
		return nil
	}
	const claim, payload, idBytes = `"claim_id":"`, `"payload":"`, 36
	at := bytes.Index(line, []byte(claim))
	jobs := bytes.Count(line, []byte(payload))
	if s.pushed == nil || at < 0 || at+len(claim)+idBytes > len(line) || jobs == 0 {
		return fmt.Errorf("the server sent %.300q", line)
	}
	s.pushed(string(line[at+len(claim):at+len(claim)+idBytes]), jobs)
	return nil
}

// fail answers all waiting requests.
func (s *stream) fail(err error) {
	s.mu.Lock()
	waiting, creates := s.waiting, s.creates
	s.waiting, s.creates, s.failed = map[int]func(error){}, nil, fmt.Errorf("the stream has ended: %w", err)
	failed := s.failed
	s.mu.Unlock()
	for _, answered := range waiting {
		answered(failed)
	}
	for _, answered := range creates {
		answered(failed)
	}
}
