package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/proof/stallfs"
	"github.com/daybookq/daybook/store"
)

func (r *rig) dial() net.Conn {
	r.Helper()
	return testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(r)
}

// TestRefusalsDoNotWaitForBodies: on every route, a request announces a body and does not send it. The answer arrives
// anyway, for every refusal and for every handler that does not read the body, and the server closes the connection.
func TestRefusalsDoNotWaitForBodies(t *testing.T) {
	type request struct{ name, method, path, headers string }
	var requests []request
	for _, route := range unserved().routes() {
		path := strings.NewReplacer(":id", unknownID, ":client", "c", ":type", "t", ":file", "page.js").Replace(route.path)
		name := route.method + " " + route.path
		const local, kind = "Host: localhost\r\n", "Content-Type: application/json\r\n"
		requests = append(requests,
			request{name, route.method, path, local + kind},
			request{name + ", wrong Host", route.method, path, "Host: example.org\r\n" + kind},
			request{name + ", foreign Origin", route.method, path, local + "Origin: http://example.org\r\n" + kind},
			request{name + ", wrong type", route.method, path, local + "Content-Type: image/png\r\n"},
			request{name + ", wrong encoding", route.method, path, local + kind + "Content-Encoding: br\r\n"},
			request{name + ", wrong query", route.method, path + "?colour=red", local + kind},
			request{name + ", wrong method", "PUT", path, local + kind},
			request{name + ", no such route", route.method, path + "/no/such/route", local + kind},
			request{name + ", escape in the path", route.method, path + "%41", local + kind},
		)
	}
	for _, length := range []string{"Content-Length: 1000", "Content-Length: 8388608", "Content-Length: 100000000", "Transfer-Encoding: chunked"} {
		inBubbleWith(t, &picky{t: t}, func(t *testing.T, s *Server, l *pipeListener) {
			for _, r := range requests {
				c := l.dial()
				began := time.Now()
				head := fmt.Sprintf("%s %s HTTP/1.1\r\n%s%s\r\n\r\n", r.method, r.path, r.headers, length)
				testkit.Must(io.WriteString(c, head))(t)
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				testkit.NoError(t, err, r.name, length)
				go io.Copy(io.Discard, resp.Body)
				took := time.Since(began)
				testkit.Holds(t, took <= web.PaceTime, r.name, length, resp.StatusCode, "after", took)
				testkit.Holds(t, resp.Close, r.name, length, resp.StatusCode, "and the connection stays open")
				synctest.Wait()
				time.Sleep(2 * web.LeftoverWait)
				synctest.Wait()
				n, _ := s.web.Connections()
				testkit.Equal(t, n, 0, r.name, length, "connections are left")
				c.Close()
			}
		})
	}
}

// TestRefusalsKeepConnections: the server discards the body of a refused request, and the connection serves further
// requests.
func TestRefusalsKeepConnections(t *testing.T) {
	r := start(t)
	c := r.dial()
	defer c.Close()
	in := bufio.NewReader(c)
	body := strings.Repeat("x", 100_000)
	for _, request := range []string{
		"POST /jobs/create HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n", "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n", "POST /add HTTP/1.1\r\nHost: example.org\r\n",
		"POST /add?colour=red HTTP/1.1\r\nHost: localhost\r\n", "GET /ping HTTP/1.1\r\nHost: localhost\r\n", "GET /jobs HTTP/1.1\r\nHost: localhost\r\n",
	} {
		for _, framed := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		} {
			testkit.Must(io.WriteString(c, request+framed))(t)
			resp := testkit.Must(http.ReadResponse(in, nil))(t)
			testkit.Must(io.Copy(io.Discard, resp.Body))(t)
			testkit.Holds(t, !resp.Close, request, resp.StatusCode, "and the connection ends")
		}
	}
}

// TestClientsThatDoNotRead: the server closes the connection of a client that does not read its answer, or reads single
// bytes.
func TestClientsThatDoNotRead(t *testing.T) {
	for name, read := range map[string]func(c net.Conn){
		"nothing":          func(net.Conn) {},
		"a byte a second":  func(c net.Conn) { trickle(c, time.Second) },
		"ten bytes a time": func(c net.Conn) { trickle(c, 100*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbleWith(t, &picky{t: t}, func(t *testing.T, s *Server, l *pipeListener) {
				c := l.dial()
				defer c.Close()
				testkit.Must(io.WriteString(c, "GET /docs/swagger-ui.css HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
				go read(c)
				time.Sleep(web.PaceTime + time.Second)
				synctest.Wait()
				n, _ := s.web.Connections()
				testkit.Equal(t, n, 0, "connections are left")
			})
		})
	}
}

func trickle(c net.Conn, every time.Duration) {
	b := make([]byte, 1)
	for {
		if _, err := c.Read(b); err != nil {
			return
		}
		time.Sleep(every) // real time: a slow client
	}
}

// TestConnectionsAreBounded: the server closes connections without a request for new ones. It first closes connections
// that never had a request, then the longest idle connection. It never closes a connection with a request.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		s := testkit.Must(newServer(Options{Log: zerolog.Nop(), MaxConnections: most}, waiting{}))(t)
		l := newPipeListener()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx, l, time.Second) }()
		ask := func(c net.Conn, request string) int {
			t.Helper()
			if _, err := io.WriteString(c, request); err != nil {
				return 0
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return 0
			}
			testkit.Must(io.Copy(io.Discard, resp.Body))(t)
			synctest.Wait()
			return resp.StatusCode
		}
		const ping = "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
		const claim = "POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n" + `{"runner_id":"r","wait_ms":60000}`
		at := func(open int, evicted int64) {
			t.Helper()
			synctest.Wait()
			o, e := s.web.Connections()
			testkit.Holds(t, o == open && e == evicted, o, "connections", e, "evicted; want", open, "and", evicted)
		}
		parked := l.dial()
		defer parked.Close()
		answered := make(chan int, 1)
		go func() { answered <- ask(parked, claim) }()
		established := l.dial()
		defer established.Close()
		testkit.MustEqual(t, ask(established, ping), http.StatusOK, "no answer")
		for range most - 2 {
			defer l.dial().Close()
		}
		at(most, 0)

		// A connection beyond the limit waits until another connection was silent for IdleGrace.
		began := time.Now()
		late := l.dial()
		defer late.Close()
		testkit.Holds(t, ask(late, ping) == http.StatusOK && time.Since(began) <= web.IdleGrace, "a new client waited", time.Since(began))
		at(most, 1)
		// Many silent connections close only other silent connections.
		go func() {
			for range 50 {
				c := l.dial()
				t.Cleanup(func() { c.Close() })
			}
		}()
		for range 10 {
			time.Sleep(web.IdleGrace)
			for name, c := range map[string]net.Conn{"established": established, "late": late} {
				testkit.Equal(t, ask(c, ping), http.StatusOK, "the", name, "client was closed")
			}
			open, _ := s.web.Connections()
			testkit.Holds(t, open <= most, open, "are open")
		}
		time.Sleep(2 * time.Minute) // the server closes the silent connections, and the claim ends
		testkit.Equal(t, <-answered, http.StatusNoContent, "the parked claim")
		at(3, func() int64 { _, evicted := s.web.Connections(); return evicted }())
		cancel()
		testkit.Check(t, <-ended)
		at(0, func() int64 { _, evicted := s.web.Connections(); return evicted }())
	})
}

// TestFraming is the corpus of requests whose end is ambiguous. net/http refuses most of them; framing refuses the rest.
func TestFraming(t *testing.T) {
	r := start(t)
	const next = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
	// answers sends bytes, and returns the statuses of all answers until the connection ends.
	for _, c := range []struct {
		name, request string
		want          []int
	}{
		{"both lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400}},
		{"both lengths, the other way", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 47\r\n\r\n0\r\n\r\n", []int{400}},
		{"both lengths on a GET", "GET /ping HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
		{"both lengths after a good request", next + "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{200, 400}},
		{"two different lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nx\n", []int{400}},
		{"two equal lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nx\n", []int{201, 200}},
		{"a list of lengths", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2, 2\r\n\r\nx\n", []int{400}},
		{"a length with a sign", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2\r\n\r\nx\n", []int{400}},
		{"an empty length", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\n\r\nx\n", []int{400}},
		{"a space before the colon", "POST /add HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2\r\n\r\nx\n", []int{400}},
		{"a carriage return in a header", "POST /add HTTP/1.1\r\nHost: localhost\r\nX: y\rContent-Length: 2\r\n\r\n", []int{400}},
		{"two carriage returns at the end of a head", "POST /add HTTP/1.1\r\nHost: localhost\r\n\r\r\nContent-Length: 2\r\n\r\nx\n", []int{400}},
		{"chunked twice", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{501}},
		{"chunked in a list", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", []int{501}},
		{"another encoding with a length", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nx\n", []int{501}},
		{"an encoding after a vertical tab", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \vchunked\r\nContent-Length: 2\r\n\r\nx\n", []int{400}},
		{"a chunk without a carriage return", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;a\nx\n\r\n0\r\n\r\n", []int{400}},
		{"a chunk that is longer than its size", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nx\nxx0\r\n\r\n", []int{400}},
		{"a size of a chunk with 0x", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nx\n\r\n0\r\n\r\n", []int{400}},
		{"a header of two lines", "POST /add HTTP/1.1\r\nHost: localhost\r\nX: y\r\n Content-Length: 2\r\n\r\n", []int{400}},
		{"chunks in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{411}},
		{"chunks in HTTP/1.0 that keeps alive", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{411}},
		{"chunks and a length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
		{"another encoding and a length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: x\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", []int{400}},
		{"chunks on a GET in HTTP/1.0", "GET /ping HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", []int{200, 400}},
		{"another encoding on a GET in HTTP/1.0", "GET /ping HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: x\r\n\r\n", []int{200, 400}},
		{"no length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\nx\n", []int{411}},
		{"a length in HTTP/1.0", "POST /add HTTP/1.0\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nx\n", []int{201}},
		{"a GET in HTTP/1.0", "GET /ping HTTP/1.0\r\nHost: localhost\r\n\r\n", []int{200}},
		{"no length in HTTP/1.1", "POST /add HTTP/1.1\r\nHost: localhost\r\n\r\n", []int{201, 200}},
		{"chunks and then another request", "POST /add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nx\n\r\n0\r\nTrailer: 1\r\n\r\n", []int{201, 200}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := r.dial()
			defer conn.Close()
			testkit.Must(io.WriteString(conn, c.request+next))(t)
			in := bufio.NewReader(conn)
			for i, status := range c.want {
				resp, err := http.ReadResponse(in, nil)
				testkit.NoError(t, err, "answer", i)
				text := testkit.Must(io.ReadAll(resp.Body))(t)
				testkit.Equal(t, resp.StatusCode, status, "answer", i, text)
				testkit.Holds(t, status < 400 || resp.Close, "the connection stays open after", text)
			}
			if c.want[len(c.want)-1] >= 400 {
				rest, _ := io.ReadAll(in)
				testkit.Holds(t, !strings.Contains(string(rest), "HTTP/1.1"), "the rest was served", rest)
			}
		})
	}
}

// startStalled runs a server whose store blocks all commits.
func startStalled(t *testing.T) *rig {
	t.Helper()
	dir := testkit.Must(os.MkdirTemp("", "stalled"))(t) // not t.TempDir: an engine that did not end writes for a moment
	gate := make(chan struct{})
	engine := testkit.Must(ingest.Open(ingest.Options{Dir: dir, CommitWait: 200 * time.Millisecond,
		Store: store.Options{FS: stallfs.New(gate), MemtableBytes: stallfs.MemtableBytes}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		close(gate)
		cancel()
		err := <-ended
		testkit.Holds(t, err == nil || errors.Is(err, ingest.ErrStuck), "engine", err)
		testkit.Eventually(t, "the engine writes no file any more", func() bool { return os.RemoveAll(dir) == nil })
	})
	r := startOn(t, setup{Options: Options{Log: zerolog.Nop()}, engine: behind{engine, stateOf{engine.Queries()}}})
	testkit.Eventually(t, "the engine is ready", func() bool { return engine.Ready() == nil })
	lines := strings.Repeat(strings.Repeat("x", 100)+"\n", 1000)
	for engine.Ready() == nil {
		a := r.add("/acme/job/mail/add", lines)
		testkit.MustHold(t, a.status == http.StatusCreated || a.status == http.StatusServiceUnavailable, "add", a.status, a.body)
	}
	return r
}

// TestEveryRouteAnswersWhileTheStoreTakesNoCommit sends a request to each route of the table. Each request soon
// succeeds or is refused with a reason.
func TestEveryRouteAnswersWhileTheStoreTakesNoCommit(t *testing.T) {
	r := startStalled(t)
	const claimOne = `{"runner_id":"r","max":1}`
	bodies := map[string]string{ // for routes that refuse an empty body before they call the engine
		"/jobs/create":           `{"payload":"x"}`,
		"/add":                   "one line\n",
		"/:client/job/:type/add": "one line\n",
		"/jobs/claim":            claimOne,
		"/jobs/tickle":           `{"runner_id":"r"}`,
		"/jobs/:id/tickle":       `{"runner_id":"r"}`,
		"/jobs/complete":         `{"claim_id":"` + unknownID + `","status":"completed"}`,
		"/jobs/:id/complete":     `{"status":"completed"}`,
		"PATCH /jobs/:id":        `{"priority":3}`,
	}
	path := strings.NewReplacer(":id", unknownID, ":client", "acme", ":type", "mail", ":file", "index.html")
	var requests sync.WaitGroup
	for _, route := range r.server.routes() {
		for _, headers := range [][2]string{{}, {"Idempotency-Key", `"k` + route.path + `"`}} {
			body, given := bodies[route.method+" "+route.path]
			if !given {
				body = bodies[route.path]
			}
			requests.Go(func() {
				what := route.method + " " + route.path
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, route.method, r.url+path.Replace(route.path), strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				if strings.HasPrefix(body, "{") {
					req.Header.Set("Content-Type", "application/json")
				}
				if headers[0] != "" {
					req.Header.Set(headers[0], headers[1])
				}
				answer, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				testkit.Check(t, err, what)
				var p struct{ Code, Detail string }
				testkit.Holds(t, answer.StatusCode < 500 || answer.StatusCode == http.StatusServiceUnavailable && json.Unmarshal(text, &p) == nil &&
					p.Code != "" && p.Detail != "" || route.path == "/readyz", what, answer.StatusCode, text)
			})
		}
	}
	requests.Wait()
}
