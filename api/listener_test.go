package api

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestConnectionsAreBounded: the server closes connections without a request for new ones. It first closes connections
// that never had a request, then the longest idle connection. It never closes a connection with a request.
func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 10
		s := testkit.Must(newServer(Options{Log: zerolog.Nop(), MaxConnections: most}, parts{claimer: waiting{}}))(t)
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
		if ask(late, ping) != http.StatusOK || time.Since(began) > web.IdleGrace {
			t.Errorf("a new client waited %s", time.Since(began))
		}
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
