package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/internal/load/works"
)

// Stream is a stream of a load, which decodes as little as possible. One goroutine reads. One goroutine writes all waiting requests in one
// message. In runs, it writes all waiting creates as one request in a separate message.
type Stream struct {
	conn   *websocket.Conn
	cancel context.CancelFunc
	runs   bool
	line   []byte                       // a payload and a newline
	pushed func(claim string, jobs int) // called with jobs that the server has sent
	wake   chan struct{}

	mu      sync.Mutex
	out     []byte        // requests that wait to be written
	creates []func(error) // creates that wait to be written in runs
	last    int           // the number of the last request
	waiting map[int]func(error)
	failed  error // why the stream ended
}

// DialStream opens a stream of the server. With runs, creates and jobs travel in runs, and payloads have size bytes. pushed is
// called in the goroutine that reads, so it must not wait for an answer.
func (l *Load) DialStream(ctx context.Context, runs bool, size int, pushed func(claim string, jobs int)) (*Stream, error) {
	header := http.Header{}
	l.authorize(header)
	conn, _, err := websocket.Dial(ctx, l.URL+"/stream", &websocket.DialOptions{HTTPClient: l.HTTP, HTTPHeader: header, Subprotocols: []string{"daybook.v1"}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	// The stream outlasts ctx, which may be the context of a dial: Close ends it.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Stream{conn: conn, cancel: cancel, runs: runs, line: works.Lines(1, size), pushed: pushed, wake: make(chan struct{}, 1), waiting: map[int]func(error){}}
	go s.read(lasting)
	go s.write(lasting)
	return s, nil
}

// Close ends both goroutines.
func (s *Stream) Close() {
	s.cancel()
	_ = s.conn.CloseNow() // the server notices the end of the connection
}

// Subscribe subscribes as a runner, with a credit.
func (s *Stream) Subscribe(ctx context.Context, runner string, credit int) error {
	jobs := "json"
	if s.runs {
		jobs = "runs"
	}
	if err := s.Call(ctx, "hello", fmt.Sprintf(`{"runner_id":%q,"jobs":%q}`, runner, jobs)); err != nil {
		return err
	}
	return s.Call(ctx, "subscribe", fmt.Sprintf(`{"credit":%d}`, credit))
}

// Credit sets the credit of the subscription.
func (s *Stream) Credit(ctx context.Context, credit int) error {
	return s.Call(ctx, "credit", fmt.Sprintf(`{"subscription":2,"credit":%d}`, credit))
}

// Create creates a job, whose document is body unless creates travel in runs, and waits for the answer.
func (s *Stream) Create(ctx context.Context, body string) error {
	if !s.runs {
		return s.Call(ctx, "create", body)
	}
	return wait(ctx, s.sendCreate)
}

// Call sends a request and waits for the answer.
func (s *Stream) Call(ctx context.Context, verb, body string) error {
	return wait(ctx, func(answered func(error)) { s.Send(verb, body, answered) })
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

// Send sends a request. answered is called once, in the goroutine that reads.
func (s *Stream) Send(verb, body string, answered func(error)) {
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
func (s *Stream) sendCreate(answered func(error)) {
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

func (s *Stream) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Stream) write(ctx context.Context) {
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

// takeCreates appends a request with all waiting creates. The caller holds s.mu.
func (s *Stream) takeCreates(message []byte) []byte {
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
		s.last, n, n, n*len(s.line))
	for range n {
		message = append(message, s.line...)
	}
	return message
}

func (s *Stream) read(ctx context.Context) {
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

func (s *Stream) received(kind websocket.MessageType, message []byte) error {
	if kind == websocket.MessageBinary {
		claim, jobs, err := ClaimedRuns(message, len(s.line))
		if err != nil || s.pushed == nil || jobs == 0 {
			return fmt.Errorf("the server sent %.300q (%w)", message, err)
		}
		s.pushed(claim, jobs)
		return nil
	}
	for line := range bytes.Lines(message) {
		if err := s.textLine(line); err != nil {
			return err
		}
	}
	return nil
}

// textLine handles an answer, or jobs. It decodes only what it needs.
func (s *Stream) textLine(line []byte) error {
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
	claim, jobs := claimID(line), bytes.Count(line, []byte(`"payload":"`))
	if s.pushed == nil || claim == "" || jobs == 0 {
		return fmt.Errorf("the server sent %.300q", line)
	}
	s.pushed(claim, jobs)
	return nil
}

// fail answers all waiting requests.
func (s *Stream) fail(err error) {
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

// ClaimedRuns finds the claim and the payloads in an answer in runs, and returns the id of the claim and the number of
// jobs. Each payload must take lineBytes with its newline.
func ClaimedRuns(answer []byte, lineBytes int) (id string, jobs int, err error) {
	const section, run = "#:claim ", "#:run "
	at := bytes.Index(answer, []byte(section)) // the results of a completion come before it
	if at < 0 {
		return "", 0, nil
	}
	head, rest, _ := bytes.Cut(answer[at:], []byte("\n"))
	if id = claimID(head); id == "" {
		return "", 0, nil // no job waits
	}
	for bytes.HasPrefix(rest, []byte(run)) {
		head, rest, _ = bytes.Cut(rest, []byte("\n"))
		n, size := number(head, " n="), number(head, " bytes=")
		if n != size/lineBytes || size > len(rest) || bytes.Count(rest[:size], []byte("\n")) != n {
			return "", 0, fmt.Errorf("a run has other payloads than were posted: %q", head)
		}
		jobs, rest = jobs+n, rest[size:]
	}
	return id, jobs, nil
}

// number returns a field of a line, or 1 if it is left out, or -1 if it is not a number.
func number(line []byte, field string) int {
	_, value, ok := bytes.Cut(line, []byte(field))
	if !ok {
		return 1
	}
	value, _, _ = bytes.Cut(value, []byte(" "))
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return -1
	}
	return n
}
