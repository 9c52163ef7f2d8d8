package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
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
	for _, route := range (&Server{}).routes() {
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
		inBubbleWith(t, partsOf(&picky{t: t}, &picky{t: t}), func(t *testing.T, s *Server, l *pipeListener) {
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
			inBubbleWith(t, partsOf(&picky{t: t}, &picky{t: t}), func(t *testing.T, s *Server, l *pipeListener) {
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
