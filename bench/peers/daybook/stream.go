package daybook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/bench/peers/measure"
)

// streams is a session of streams. The callers share measure.Connections of them at most: with more callers, each
// stream has several requests under way.
type streams struct {
	*server

	mu   sync.Mutex
	open map[int]*stream // by number
}

func openStreams(s *server) measure.Session {
	return &streams{server: s, open: map[int]*stream{}}
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
		opened, err := dialStream(ctx, s.process.URL()+"/stream", nil)
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
	return s.server.Close()
}

// streamConn creates jobs. Jobs are not claimed in a stream but sent by the server: see Run.
type streamConn struct{ *stream }

func (c streamConn) Create(ctx context.Context, _ int) error {
	return c.call(ctx, "create", createBody)
}

func (streamConn) Claim(context.Context, int) (int, error) { return 0, measure.ErrUnsupported }

func (streamConn) Complete(context.Context) error { return measure.ErrUnsupported }

func (streamConn) Close() error { return nil }

var createBody = fmt.Sprintf(`{"payload":"%s"}`, lines(1)[:measure.PayloadBytes])

func (s *streams) Runs(w measure.Work) bool { return w.Kind == measure.Lifecycle }

// Run has each stream subscribe with as many jobs of credit as callers share it. A caller creates a job, and goes on
// when its stream has completed one: as many jobs are under way as there are callers.
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
		all[i], err = dialStream(ctx, s.process.URL()+"/stream", func(claim string, jobs int) {
			// The answer arrives in the goroutine that calls this function, so it must not wait for it.
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
				if err := all[caller/perStream].call(ctx, "create", createBody); err != nil {
					stop(err)
					return
				}
				select {
				case <-ended[caller/perStream]:
					t.Record(time.Since(began))
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

// stream is a connection. One goroutine reads, and one writes all requests that wait in one message.
type stream struct {
	conn   *websocket.Conn
	cancel context.CancelFunc
	pushed func(claim string, jobs int) // called with jobs that the server has sent
	wake   chan struct{}

	mu      sync.Mutex
	out     []byte // requests that wait to be written
	last    int    // the number of the last request
	waiting map[int]func(error)
	failed  error // why the stream ended
}

func dialStream(ctx context.Context, url string, pushed func(string, int)) (*stream, error) {
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	// The stream outlasts ctx, which may be that of a dial: close ends it.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &stream{conn: conn, cancel: cancel, pushed: pushed, wake: make(chan struct{}, 1), waiting: map[int]func(error){}}
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
	if err := s.call(ctx, "hello", `{"runner_id":"`+runner+`"}`); err != nil {
		return err
	}
	return s.call(ctx, "subscribe", fmt.Sprintf(`{"credit":%d}`, credit))
}

// call sends a request and waits for the answer.
func (s *stream) call(ctx context.Context, verb, body string) error {
	answered := make(chan error, 1)
	s.send(verb, body, func(err error) { answered <- err })
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
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) write(ctx context.Context) {
	var message []byte
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		message, s.out = s.out, message[:0]
		s.mu.Unlock()
		if len(message) == 0 {
			continue
		}
		if err := s.conn.Write(ctx, websocket.MessageText, message); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *stream) read(ctx context.Context) {
	var message bytes.Buffer
	for {
		_, r, err := s.conn.Reader(ctx)
		if err == nil {
			message.Reset()
			_, err = message.ReadFrom(r)
		}
		if err != nil {
			s.fail(err)
			return
		}
		for line := range bytes.Lines(message.Bytes()) {
			if err := s.line(line); err != nil {
				s.fail(err)
				return
			}
		}
	}
}

// line handles an answer, or jobs. It decodes no more than it needs.
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

// fail answers all requests that wait.
func (s *stream) fail(err error) {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting, s.failed = map[int]func(error){}, fmt.Errorf("the stream has ended: %w", err)
	failed := s.failed
	s.mu.Unlock()
	for _, answered := range waiting {
		answered(failed)
	}
}
