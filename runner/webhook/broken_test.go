package webhook

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
)

// forever writes a text until the other side hangs up.
func forever(c net.Conn, text string) {
	w := bufio.NewWriterSize(c, 64<<10)
	for {
		if _, err := w.WriteString(text); err != nil {
			return
		}
	}
}

// begins reports whether an error text begins with want up to its first space, and contains the rest of want.
func begins(text, want string) bool {
	code, rest, _ := strings.Cut(want, " ")
	return strings.HasPrefix(text, code) && strings.Contains(text, rest)
}

// TestBrokenAnswers: servers whose answer is not a complete HTTP response.
func TestBrokenAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	var cases sync.WaitGroup // at the same time, because some take as long as their time-out
	defer cases.Wait()
	wait := func(c net.Conn) { io.Copy(io.Discard, c) } // until the other side hangs up
	for name, c := range map[string]struct {
		serve         func(c net.Conn)
		single, batch string // the error text's code, and a part of the rest
	}{
		"closed at once":            {func(c net.Conn) {}, "ECONNRESET: EOF", "ECONNRESET: EOF"},
		"reset":                     {func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, "ECONNRESET: ", "ECONNRESET: "},
		"cut in the headers":        {func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 100\r\n") }, "ECONNRESET: unexpected EOF", "ECONNRESET: unexpected EOF"},
		"cut in the body":           {func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 100\r\n\r\n200\n20") }, "ECONNRESET: unexpected EOF", "ECONNRESET: unexpected EOF"},
		"cut in a chunk":            {func(c net.Conn) { io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n6\r\n200\n20") }, "ECONNRESET: unexpected EOF", "ECONNRESET: unexpected EOF"},
		"a bad chunk":               {func(c net.Conn) { io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n4\r\n200\nxyz\r\n") }, "BATCH_ERROR: malformed chunked encoding", "BATCH_ERROR: malformed chunked encoding"},
		"a garbage status":          {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 2x0 OK\r\n\r\n") }, "BATCH_ERROR: malformed HTTP status code \"2x0\"", "BATCH_ERROR: malformed HTTP status code"},
		"no HTTP":                   {func(c net.Conn) { io.WriteString(c, "SSH-2.0-\xff\x00\r\n") }, "BATCH_ERROR: malformed HTTP response", "BATCH_ERROR: "},
		"a garbage header":          {func(c net.Conn) { io.WriteString(c, ok+"no colon\r\n\r\n") }, "BATCH_ERROR: ", "BATCH_ERROR: "},
		"two lengths":               {func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab") }, "BATCH_ERROR: ", "BATCH_ERROR: "},
		"a long status":             {func(c net.Conn) { forever(c, strings.Repeat("HTTP/1.1 ", 1000)) }, "BATCH_ERROR: server response headers exceeded", "BATCH_ERROR: "},
		"endless headers":           {func(c net.Conn) { io.WriteString(c, ok); forever(c, "A: b\r\n") }, "BATCH_ERROR: server response headers exceeded 65536 bytes", "BATCH_ERROR: server response headers exceeded"},
		"endless statuses":          {func(c net.Conn) { forever(c, "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n") }, "BATCH_ERROR: server response headers exceeded", "BATCH_ERROR: server response headers exceeded"},
		"no status in time":         {wait, "ETIMEDOUT: no complete answer within 2s", "ETIMEDOUT: no complete answer within 2s"},
		"half of a status":          {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 20"); wait(c) }, "ETIMEDOUT: ", "ETIMEDOUT: "},
		"a body that stalls":        {func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 100\r\n\r\n200\n200"); wait(c) }, "ESOCKETTIMEDOUT: no complete answer within 2s", "ESOCKETTIMEDOUT: "},
		"a body that never ends":    {func(c net.Conn) { io.WriteString(c, ok+"\r\n200\n"); forever(c, "a") }, "the body of the answer has more than 1000 bytes", ""},
		"an error that never ends":  {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 500 No\r\n\r\n200\n"); forever(c, "#\n") }, "HTTP 500 Internal Server Error: 200", ""},
		"an error whose body stops": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n200\n20"); wait(c) }, "HTTP 500 Internal Server Error: 200", "ESOCKETTIMEDOUT: "},
	} {
		cases.Go(func() {
			t.Run(name, func(t *testing.T) {
				to := rawWeb(t, c.serve)
				options := handler.Options{InlineBytes: 1000, OutputBytes: 1000, TimeoutMs: 60_000}
				if strings.Contains(c.single+c.batch, "TIMEDOUT") {
					options.TimeoutMs = 2_000 // far longer than the part that arrives takes
				}
				end := run(t, t.Context(), executor(t, to, options), newJob(1, "a"))[0]
				code := "error"
				if strings.HasPrefix(c.single, "the body") {
					code = "failed"
				}
				testkit.Holds(t, end.Code == code && begins(end.Error, c.single) && len(end.Error) <= errorBodyBytes+100,
					"single", end.Code, end.Error, "not", c.single)
				if c.batch == "" {
					return
				}
				options.Batch = true
				list := run(t, t.Context(), executor(t, to, options), newJob(1, "a"), newJob(2, "b"), newJob(3, "c"))
				for i, end := range list {
					if i == 0 && end.Code == "ok" {
						continue // its whole line arrived
					}
					testkit.Holds(t, end.Code == "error" && begins(end.Error, c.batch), "batch, task", i, end.Code, end.Error, "not", c.batch)
				}
				arrived := strings.Contains(name, "body") || strings.Contains(name, "chunk")
				testkit.Equal(t, list[0].Code == "ok", arrived, "batch: the first task has its answer")
			})
		})
	}
}

// TestEndlessBatchAnswers: the answer to a batch is bounded. Lines that arrived before the bound count.
func TestEndlessBatchAnswers(t *testing.T) {
	for name, endless := range map[string]string{"comments": "# a comment\n", "one line": strings.Repeat("a", 1<<10), "jobs": "J: a|" + strings.Repeat("b", 1<<10) + "\n", "lines": "200\n"} {
		to := rawWeb(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n200\n"); forever(c, endless) })
		e := executor(t, to, handler.Options{Batch: true, InlineBytes: 1 << 10, OutputBytes: 1 << 10})
		e.mostBeside = 1 << 20
		list := run(t, t.Context(), e, newJob(1, "a"), newJob(2, "b"), newJob(3, "c"))
		want(t, list[0], "ok", 200, "")
		want(t, list[2], "error", 0, "BATCH_ERROR: the body of the answer has more than 1051648 bytes")
		if name != "lines" {
			want(t, list[1], "error", 0, "BATCH_ERROR: the body of the answer has more than 1051648 bytes")
		}
	}
}

// TestLongBatchAnswers: an output longer than options.output_bytes fails its own job, even if its line never ends.
// Outputs of an allowed length do not count against the body's bound.
func TestLongBatchAnswers(t *testing.T) {
	const most = 6 << 20
	output := strings.Repeat("o", most)
	for _, last := range []bool{false, true} {
		to := rawWeb(t, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n200 "+output+"\n200 "+output+"o\n200 "+output+"\n")
			if !last {
				io.WriteString(c, "404 no\n")
			}
			io.WriteString(c, "200 ")
			forever(c, "o")
		})
		e := executor(t, to, handler.Options{Batch: true, OutputBytes: most})
		e.mostBeside = 1 << 20
		list := run(t, t.Context(), e, newJob(1, "a"), newJob(2, "b"), newJob(3, "c"), newJob(4, "d"), newJob(5, "e"), newJob(6, "f"))
		want(t, list[0], "ok", 200, "")
		want(t, list[1], "failed", 0, "the answer 200 has an output of more than 6291456 bytes")
		want(t, list[2], "ok", 200, "")
		endless := 3
		if !last {
			want(t, list[3], "failed", 404, "no")
			endless = 4
		}
		want(t, list[endless], "failed", 0, "the answer 200 has an output of more than 6291456 bytes")
		testkit.Holds(t, string(list[0].Output) == output && list[5].Unget, len(list[0].Output),
			"bytes, and the job after the endless answer ended with", list[5])
	}
}

// TestNoServer: no server listens, or the name is unknown.
func TestNoServer(t *testing.T) {
	l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	e := executor(t, "http://"+l.Addr().String(), handler.Options{})
	want(t, run(t, t.Context(), e, newJob(1, "a"))[0], "error", 0, "ECONNREFUSED: dial tcp "+l.Addr().String())
	batch := executor(t, "http://"+l.Addr().String(), handler.Options{Batch: true})
	for _, end := range run(t, t.Context(), batch, newJob(1, "a"), newJob(2, "b")) {
		want(t, end, "error", 0, "ECONNREFUSED: ")
	}
	for code, resolver := range map[string]*net.Resolver{
		"ENOTFOUND": answerNames(t, func() netip.Addr { return netip.Addr{} }),
		"EAI_AGAIN": {PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no route to the name server")
		}},
	} {
		unknown := executor(t, "http://hooks.test", handler.Options{})
		unknown.dialer.check.Resolver = resolver
		want(t, run(t, t.Context(), unknown, newJob(1, "a"))[0], "error", 0, code+": dial tcp: lookup hooks.test")
	}
}

// TestClosedConnections: if a server closes connections that it promised to keep, no run fails.
func TestClosedConnections(t *testing.T) {
	to := rawWeb(t, func(c net.Conn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na") })
	e := executor(t, to, handler.Options{})
	for i := range 50 {
		want(t, run(t, t.Context(), e, newJob(i, "a"))[0], "ok", 200, "")
	}
}
