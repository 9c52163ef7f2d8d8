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
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
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

func newPipeListener() *pipeListener { return &pipeListener{make(chan net.Conn), make(chan struct{})} }

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
type idle struct{ backend.Engine }

func (idle) Create(_ context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	return applied.Made{Batch: job.NewID(1, 1, 0), Lines: c.Lines(), Group: c.Groups[0]}, ingest.Receipt{Seq: 1, At: 1}, nil
}
func (i idle) StartCreate(ctx context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	return func() (applied.Made, ingest.Receipt, error) { return i.Create(ctx, c) }
}
func (idle) Now() int64                                { return 1 }
func (idle) ClockOffset() time.Duration                { return 0 }
func (idle) AcceptTime(context.Context) (int64, error) { return 0, nil }

func (idle) Key(string) *job.Key { return nil }

func (idle) KeysRequired() bool { return false }

func (idle) KeysKnown() bool { return true }

func (idle) Login([]byte) *job.Login { return nil }

func (idle) LoginsOf(string, int64) (own, ended []*job.Login) { return nil, nil }

func (idle) HandlerFor(string, string) (h document.Named, ok bool) { return h, false }

// inBubble calls test with a server in a bubble of synctest. The server has an engine that accepts every create.
func inBubble(t *testing.T, test func(t *testing.T, s *Server, l *pipeListener)) {
	t.Helper()
	inBubbleWith(t, idle{}, test)
}

// inBubbleWith is inBubble with another engine.
func inBubbleWith(t *testing.T, engine backend.Engine, test func(t *testing.T, s *Server, l *pipeListener)) {
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
		testkit.Holds(t, resp.StatusCode == http.StatusRequestTimeout &&
			strings.Contains(string(text), `"body_too_slow"`) && resp.Close, resp.StatusCode, text)
		testkit.Equal(t, time.Since(start), web.PaceTime, "answered")
		testkit.Equal(t, s.bulk.Used(), 0, "bytes are still held")
	})
}

func TestReadDeadlineEndsWithTheBody(t *testing.T) {
	// A claim can wait longer than the time limit of its body.
	inBubbleWith(t, waiting{idle{}}, func(t *testing.T, s *Server, l *pipeListener) {
		c := l.dial()
		defer c.Close()
		body := `{"runner_id":"r","wait_ms":60000}`
		testkit.Must(fmt.Fprintf(c, "POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))(t)
		start := time.Now()
		resp := testkit.Must(http.ReadResponse(bufio.NewReader(c), nil))(t)
		testkit.Holds(t, resp.StatusCode == http.StatusNoContent && time.Since(start) == time.Minute, resp.StatusCode, "after", time.Since(start))
	})
}

func TestStopDoesNotWaitForSilentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testkit.Must(newServer(Options{Log: zerolog.Nop()}, idle{}))(t)
		l := newPipeListener()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, l, 10*time.Second) }()
		silent := l.dial()
		defer silent.Close()
		kept := l.dial() // idle after a request
		defer kept.Close()
		testkit.Must(io.WriteString(kept, "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		testkit.Must(io.Copy(io.Discard, testkit.Must(http.ReadResponse(bufio.NewReader(kept), nil))(t).Body))(t)
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

// TestBodiesWaitForTheirShare: if there is no memory for a body, the server does not read it, and refuses it after a
// wait.
func TestBodiesWaitForTheirShare(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, l *pipeListener) {
		first := web.Share{Lane: s.bulk} // the oldest share gets all that it requests
		testkit.MustHold(t, first.Grow(t.Context(), 1, 0), "the budget is not empty")
		take := func() (giveBack func()) {
			testkit.MustHold(t, first.Grow(t.Context(), s.bulk.Total(), 0), "the oldest share does not get what it requests")
			return func() { first.Shrink(s.bulk.Total()) }
		}
		c := l.dial()
		defer c.Close()
		in := bufio.NewReader(c)
		post := func(n int) *http.Response {
			go fmt.Fprintf(c, "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", n, lines(n))
			resp := testkit.Must(http.ReadResponse(in, nil))(t)
			testkit.Must(io.Copy(io.Discard, resp.Body))(t)
			return resp
		}
		for _, wait := range []time.Duration{web.MaxBudgetWait / 2, web.PaceTime + time.Second} { // shorter and longer than the client may take
			time.AfterFunc(wait, take())
			start := time.Now()
			if resp := post(100_000); resp.StatusCode != http.StatusCreated || time.Since(start) != wait {
				t.Errorf("a body that waited %s: %d after %s", wait, resp.StatusCode, time.Since(start))
			}
		}
		defer take()()
		start := time.Now()
		if resp := post(11); resp.StatusCode != http.StatusTooManyRequests || time.Since(start) < web.MaxBudgetWait || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d after %s", resp.StatusCode, time.Since(start))
		}
	})
}

// TestAnnouncedBodiesTakeNothing: connections that announce the longest body and send nothing, or only a few bytes, do
// not prevent others from posting.
func TestAnnouncedBodiesTakeNothing(t *testing.T) {
	for _, path := range []string{"/add", "/jobs/create", "/jobs/complete", "/jobs/claim"} {
		inBubble(t, func(t *testing.T, s *Server, l *pipeListener) {
			for range 100 {
				c := l.dial()
				defer c.Close()
				testkit.Must(io.WriteString(c, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 8388608\r\n\r\nx"))(t)
			}
			synctest.Wait()
			used := s.bulk.Used() + s.control.Used()
			testkit.Holds(t, used <= 100*(web.FirstReadBytes+1), path, "a hundred connections that sent a byte hold", used)
			time.Sleep(web.PaceTime)
			synctest.Wait()
			testkit.Equal(t, s.bulk.Used()+s.control.Used(), 0, path, "connections that stand still hold after", web.PaceTime)
		})
	}
}

// TestBodyLimitsOfRoutes: a route refuses bodies that are longer than it needs.
func TestBodyLimitsOfRoutes(t *testing.T) {
	testkit.OneByOne(t)
	long := map[string]bool{
		"POST /jobs/create": true, "POST /add": true, "POST /:client/job/:type/add": true, "POST /batches/:id/jobs": true, // payloads
		"POST /jobs/claim": true, "POST /jobs/complete": true, "POST /jobs/:id/complete": true, // outputs
	}
	r := start(t, func(o *setup) { o.Quit = func() {} })
	for _, route := range r.server.routes() {
		if route.method != http.MethodPost && route.method != http.MethodPatch && route.method != http.MethodPut {
			continue
		}
		name := route.method + " " + route.path
		if streamsBody(route.method, route.path) {
			continue // bodies of any length: TestBlobLimits
		}
		path := strings.NewReplacer(":id", unknownID, ":client", "c", ":type", "t").Replace(route.path)
		limit := web.SmallBodyBytes
		if long[name] {
			limit = web.MaxBodyBytes
		} else if strings.Contains(route.path, "/handler") && !strings.HasSuffix(route.path, "/delete") && !strings.HasSuffix(route.path, "/del") {
			limit = 2 * job.MaxHandlerBytes
		} else if route.path == "/blobs/missing" {
			limit = 1 << 20
		}
		kind := "application/json"
		if route.path == "/jobs/:id/log" {
			limit, kind, path = joblog.MaxBytes, web.MIMEText, path+"?offset=0&claim_id="+unknownID
		}
		for _, chunks := range []bool{false, true} {
			text := strings.Repeat(" ", limit/2) + "\n" + strings.Repeat(" ", limit/2)
			var body io.Reader = strings.NewReader(text)
			if chunks {
				body = chunked(text)
			}
			a := r.do(route.method, path, body, "Content-Type", kind)
			testkit.Equal(t, a.status, http.StatusRequestEntityTooLarge, name, "chunked", chunks, a.body)
		}
		a := r.do(route.method, path, strings.NewReader(strings.Repeat(" ", limit/2)), "Content-Type", kind)
		testkit.Holds(t, a.status != http.StatusRequestEntityTooLarge, name, "half its limit", a.status, a.body)
	}
}

// TestBudgets: each lane has the bytes that the pages promise, and a budget has no lane that is not listed here.
func TestBudgets(t *testing.T) {
	page := string(testkit.Must(os.ReadFile("../docs/reference/api.md"))(t)) + string(testkit.Must(os.ReadFile("../docs/reference/stream.md"))(t))
	l := newLimits()
	const mib = 1 << 20
	bytes := map[*web.Lane]string{ // the row of the table, with the bytes of the lane in place of %d; "": no promise
		l.bulk:      "| bytes of all arriving creates | %d MiB, half of it for one remote address",
		l.control:   "| bytes of all other bodies | %d MiB, half of it for one remote address",
		l.streamed:  "| blobs and archives that are being stored, or being read | %d each, of any length, with 1 MiB of memory for each",
		l.manifests: "| bytes of manifests of filesets | %d MiB, half of it for one remote address",

		l.documents:   "| bytes of answers that are being sent | %d MiB for GETs,",
		l.handouts:    " MiB for GETs, %d MiB for claims,",
		l.changes:     " MiB for claims, %d MiB for changes to one job",
		l.downloads:   "| blobs and archives that are being stored, or being read | %d each, of any length, with 1 MiB of memory for each",
		l.scrapes:     "| bytes of pages of `/metrics` that are being sent | %d MiB, half of it for one remote address",
		l.compressors: "",

		l.parked:         "",
		l.streamRequests: "all streams together may take %d MiB for requests",
		l.streamJobs:     "MiB for requests and %d MiB for subscriptions and jobs",
	}
	lanes := 0
	for name, b := range map[string]*web.Budget{"arriving": &l.arriving, "answered": &l.answered, "kept": &l.kept} {
		for _, lane := range b.Lanes() {
			lanes++
			row, listed := bytes[lane]
			if row != "" {
				row = fmt.Sprintf(row, lane.Total()/mib)
			}
			testkit.Holds(t, listed && strings.Contains(page, row), "lane", lane.Name(), "of", name, "the pages do not have", row)
		}
	}
	testkit.Equal(t, lanes, len(bytes), "lanes are listed")
}
