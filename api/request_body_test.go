package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// lines returns n bytes, in lines of 100 bytes.
func lines(n int) string { return strings.Repeat(repeat('x', 99)+"\n", n/100) + repeat('y', n%100) }

func zipped(text string) *bytes.Buffer {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return &b
}

// chunked hides the length of a body from net/http, which then sends it in chunks.
func chunked(text string) io.Reader { return struct{ io.Reader }{strings.NewReader(text)} }

func TestBodyLimit(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	whole := lines(web.MaxBodyBytes)
	for _, c := range []struct {
		name    string
		body    func(text string) io.Reader
		headers []string
	}{
		{"known length", func(text string) io.Reader { return strings.NewReader(text) }, nil},
		{"chunked", chunked, nil},
		{"gzip", func(text string) io.Reader { return zipped(text) }, []string{"Content-Encoding", "gzip"}},
		{"gzip, chunked", func(text string) io.Reader { return chunked(zipped(text).String()) }, []string{"Content-Encoding", "gzip"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := r.do(http.MethodPost, "/add", c.body(whole), c.headers...).object(http.StatusCreated)
			want(t, o, "count", (web.MaxBodyBytes+99)/100)
			r.do(http.MethodPost, "/add", c.body(whole+"z"), c.headers...).refused(http.StatusRequestEntityTooLarge, "body_too_large")
		})
	}
	t.Run("a gzip bomb", func(t *testing.T) {
		r.do(http.MethodPost, "/add", zipped(strings.Repeat("\n", 64<<20)), "Content-Encoding", "gzip").
			refused(http.StatusRequestEntityTooLarge, "body_too_large")
	})
	t.Run("refused before 100 Continue", func(t *testing.T) {
		head := "Host: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
		testkit.Equal(t, r.raw("POST /add HTTP/1.1\r\n"+fmt.Sprintf(head, web.MaxBodyBytes+1)), http.StatusRequestEntityTooLarge, "too large")
		testkit.Equal(t, r.raw("POST /add?what=1 HTTP/1.1\r\n"+fmt.Sprintf(head, 10)), http.StatusBadRequest, "wrong parameter")
		testkit.Equal(t, r.raw("POST /jobs/create HTTP/1.1\r\n"+fmt.Sprintf(head, 10)), http.StatusUnsupportedMediaType, "no type")
		testkit.Equal(t, r.raw("POST /add HTTP/1.1\r\n"+fmt.Sprintf(head, 10)), http.StatusContinue, "as it should be")
	})
	t.Run("not gzip", func(t *testing.T) {
		for _, body := range []string{"plain text\n", "", zipped("one\ntwo\n").String()[:15], zipped("one\n").String() + "garbage"} {
			if body == "" {
				continue
			}
			r.add("/add", body, "Content-Encoding", "gzip").refused(http.StatusBadRequest, "bad_request")
		}
	})
	t.Run("gzip JSON", func(t *testing.T) {
		o := r.do(http.MethodPost, "/jobs/create", zipped(`{"payload":"x"}`), "Content-Encoding", "gzip", "Content-Type", "application/json").object(http.StatusCreated)
		want(t, o, "payload", "x")
	})
	testkit.Equal(t, r.server.bulk.Used()+r.server.control.Used(), 0, "bytes are still held")
}

// half sends a request with an incomplete body, and returns the status of the answer.
func (r *rig) half(head, body string) int {
	r.Helper()
	c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(r)
	defer c.Close()
	testkit.Must(io.WriteString(c, head+body))(r)
	testkit.NoError(r, c.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	testkit.Holds(r, resp.Close, "the connection stays open after half a body")
	return resp.StatusCode
}

func TestBodyCutOff(t *testing.T) {
	r := start(t)
	before := r.get("/stats").object(http.StatusOK)["jobs"]
	const host = "Host: localhost\r\n"
	for name, request := range map[string][2]string{
		"lines":         {"POST /add HTTP/1.1\r\n" + host + "Content-Length: 100\r\n\r\n", "one\ntwo\n"},
		"chunked lines": {"POST /add HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "4\r\none\n\r\n4\r\ntwo\n\r\n"},
		"bad chunks":    {"POST /add HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "4\r\none\n\r\nzz\r\n"},
		"JSON":          {"POST /jobs/create HTTP/1.1\r\n" + host + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n", `{"payload":"x"}`},
		"gzip": {"POST /add HTTP/1.1\r\n" + host + "Content-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n",
			zipped(lines(100000)).String()[:50]},
	} {
		t.Run(name, func(t *testing.T) {
			status := r.half(request[0], request[1])
			testkit.Holds(t, status == http.StatusBadRequest || status == 0, "status", status)
		})
	}
	testkit.Equal(t, fmt.Sprint(r.get("/stats").object(http.StatusOK)["jobs"]), fmt.Sprint(before), "jobs were stored before", before)
	testkit.Equal(t, r.server.bulk.Used()+r.server.control.Used(), 0, "bytes are still held")
}

// pipeListener accepts in-memory connections. Their deadlines use the fake time of a synctest bubble.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) dial() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// idle is an engine that accepts every create and never hands out a job.
type idle struct{}

func (idle) Create(_ context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	return applied.Made{Batch: job.NewID(1, 1, 0), Lines: c.Lines(), Group: c.Groups[0]}, ingest.Receipt{Seq: 1, At: 1}, nil
}
func (i idle) StartCreate(ctx context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	return func() (applied.Made, ingest.Receipt, error) { return i.Create(ctx, c) }
}
func (idle) Now() int64                                { return 1 }
func (idle) ClockOffset() time.Duration                { return 0 }
func (idle) AcceptTime(context.Context) (int64, error) { return 0, nil }

// noHandlers stores no handler.
type noHandlers struct{ handlerReader }

func (noHandlers) HandlerFor(string, string) (h document.Named, ok bool) { return h, false }

var idleParts = parts{creator: idle{}, clock: idle{}, handlerReader: noHandlers{}}

// inBubble calls test with a server in a bubble of synctest. The server has an engine that accepts every create.
func inBubble(t *testing.T, test func(t *testing.T, s *Server, l *pipeListener)) {
	t.Helper()
	inBubbleWith(t, idleParts, test)
}

// inBubbleWith is inBubble with another engine.
func inBubbleWith(t *testing.T, engine parts, test func(t *testing.T, s *Server, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := testkit.Must(newServer(Options{Log: zerolog.Nop()}, engine))(t)
		l := newPipeListener()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, l, time.Second) }()
		test(t, s, l)
		cancel()
		testkit.Check(t, <-ended)
	})
}

func TestSlowBody(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		start := time.Now()
		testkit.Must(io.WriteString(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nonly this"))(t)
		resp := testkit.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		text := testkit.Must(io.ReadAll(resp.Body))(t)
		if resp.StatusCode != http.StatusRequestTimeout || !strings.Contains(string(text), `"body_too_slow"`) || !resp.Close {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
		testkit.Equal(t, time.Since(start), web.PaceTime, "answered")
		testkit.Equal(t, s.bulk.Used(), 0, "bytes are still held")
	})
}

func TestReadDeadlineEndsWithTheBody(t *testing.T) {
	// A claim can wait longer than the time limit of its body.
	inBubbleWith(t, parts{claimer: waiting{}, clock: idle{}}, func(t *testing.T, s *Server, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		body := `{"runner_id":"r","wait_ms":60000}`
		testkit.Must(fmt.Fprintf(c, "POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))(t)
		start := time.Now()
		resp := testkit.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		if resp.StatusCode != http.StatusNoContent || time.Since(start) != time.Minute {
			t.Errorf("%d after %s", resp.StatusCode, time.Since(start))
		}
	})
}

func TestStopDoesNotWaitForSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testkit.Must(newServer(Options{Log: zerolog.Nop()}, idleParts))(t)
		l := newPipeListener()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, l, 10*time.Second) }()
		silent := l.dial()
		defer silent.Close()
		kept := l.dial() // idle after a request
		defer kept.Close()
		testkit.Must(io.WriteString(kept, "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		resp := testkit.Must(http.ReadResponse(bufio.NewReader(kept), nil))(t)
		testkit.Must(io.Copy(io.Discard, resp.Body))(t)
		synctest.Wait()
		n, _ := s.web.Connections()
		testkit.Equal(t, n, 2, "connections")
		start := time.Now()
		cancel()
		testkit.Check(t, <-ended)
		took := time.Since(start)
		testkit.Holds(t, took <= time.Second, "the stop took", took)
		synctest.Wait()
		n, _ = s.web.Connections()
		testkit.Equal(t, n, 0, "connections are left")
	})
}
