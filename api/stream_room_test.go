package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// tryOpen tries to open a stream, and returns the status of the answer.
func (r *rig) tryOpen() (*streamClient, *http.Response) {
	r.Helper()
	conn, answer, err := websocket.Dial(r.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/stream", &websocket.DialOptions{Subprotocols: []string{stream.Protocol}})
	if err != nil {
		testkit.MustHold(r, answer != nil, err)
		return nil, answer
	}
	r.Cleanup(func() { _ = conn.CloseNow() })
	return &streamClient{rig: r, conn: conn}, answer
}

// closed returns the status with which the server closes a stream.
func (c *streamClient) closed() websocket.StatusCode {
	ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
	defer cancel()
	for {
		if _, _, err := c.conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// TestStreamsAreBounded: streams take at most three quarters of the connections. An unused stream makes room for a new
// one.
func TestStreamsAreBounded(t *testing.T) {
	r := start(t, func(o *setup) { o.MaxConnections = 8 })
	var used []*streamClient
	var subs []int
	for i := range 6 {
		c := r.open()
		c.ok(c.send("hello", fmt.Sprintf(`{"runner_id":"r%d"}`, i)))
		sub := c.send("subscribe", `{"credit":1}`)
		c.ok(sub)
		used, subs = append(used, c), append(subs, sub)
	}
	time.Sleep(web.IdleGrace) // real time: a real connection must stay silent for this time
	if _, answer := r.tryOpen(); answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("one stream too many: %+v", answer)
	}
	first := used[0]
	first.ok(first.send("unsubscribe", fmt.Sprintf(`{"subscription":%d}`, subs[0])))
	var c *streamClient
	r.until("there is room", func() bool { c, _ = r.tryOpen(); return c != nil })
	testkit.Equal(t, first.closed(), stream.StatusDone, "the stream that was not in use ended")
	c.ok(c.send("create", `{}`))
	for _, c := range used[1:] {
		c.ok(c.send("create", `{}`))
	}
	testkit.Contains(t, r.do(http.MethodGet, "/metrics", nil).body, "\ndaybook_streams_evicted_total 1\n")
}

// TestStreamsThatReceiveAreUsed: a stream whose request arrives slowly does not make room for a new one.
func TestStreamsThatReceiveAreUsed(t *testing.T) {
	r := start(t, func(o *setup) { o.MaxConnections = 4 })
	slow, unused, used := r.open(), r.open(), r.open()
	used.ok(used.send("hello", `{"runner_id":"r"}`))
	used.ok(used.send("subscribe", `{"credit":1}`))
	w := testkit.Must(slow.conn.Writer(t.Context(), websocket.MessageText))(t)
	testkit.Must(fmt.Fprintf(w, `{"n":1,"create":{"payload":"%s`, strings.Repeat("x", 8<<10)))(t)
	r.until("the message arrives", func() bool {
		return r.server.bulk.Used()+r.server.control.Used() > 0
	})
	time.Sleep(web.IdleGrace) // real time: a real connection must stay silent for this time
	r.until("there is room", func() bool { c, _ := r.tryOpen(); return c != nil })
	testkit.Must(fmt.Fprint(w, `"}}`))(t)
	testkit.NoError(t, w.Close())
	slow.ok(1)
	testkit.Equal(t, unused.closed(), stream.StatusDone, "the stream that was not in use ended")
}

// TestStreamsMakeRoomForRequests: if all other connections have a request, an unused stream ends.
func TestStreamsMakeRoomForRequests(t *testing.T) {
	r := start(t, func(o *setup) { o.MaxConnections = 4 })
	a, b := r.open(), r.open()
	a.ok(a.send("hello", `{"runner_id":"a"}`))
	a.ok(a.send("subscribe", `{"credit":1}`))
	r.until("the subscription waits", func() bool { return r.server.engine.Stats().Parked == 1 })
	for range 2 {
		conn := r.dial()
		defer conn.Close()
		fmt.Fprintf(conn, "POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 54, `{"runner_id":"r","types":["none"],"wait_ms":60000    }`)
	}
	r.until("the claims wait", func() bool { return r.server.engine.Stats().Parked == 3 })
	conn := r.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "POST /jobs/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", 54, `{"runner_id":"r","types":["none"],"wait_ms":60000    }`)
	r.until("a third claim waits", func() bool { return r.server.engine.Stats().Parked == 4 })
	testkit.Equal(t, b.closed(), stream.StatusDone, "the stream without a request ended")
}

// TestSubscriptionsAreBounded: the memory for subscriptions and for claims that streams hold is bounded. Claims
// continue when memory is free again.
func TestSubscriptionsAreBounded(t *testing.T) {
	r := start(t)
	budget := r.server.streams.JobMemory()
	others := web.Share{Lane: budget}
	others.Force(budget.Total() - 2*stream.SubscriptionBytes - 4<<10)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	first := c.send("subscribe", `{"credit":1000,"max":1,"types":["a"]}`)
	c.ok(first)
	c.ok(c.send("subscribe", `{"credit":1,"types":["b"]}`))
	p := c.refusal(c.send("subscribe", `{"credit":1,"types":["c"]}`), web.CodeOverloaded)
	want(t, p, "status", 503.0, "outcome", "not_stored")

	// Claims take the rest. Completed jobs make room for more.
	const jobs = 200
	r.add("/add?jobtype=a", strings.Repeat("x\n", jobs))
	ended, refused := 0, false
	var held []string
	for ended < jobs {
		o := c.next(func(o map[string]any) bool { return o["subscription"] == float64(first) })
		if o["jobs"] != nil {
			held = append(held, o["claim_id"].(string))
		}
		if refused = refused || o["problem"] != nil; refused {
			for _, claim := range held {
				want(t, c.ok(c.send("complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, claim))), "ended", 1.0)
			}
			ended, held = ended+len(held), nil
		}
	}
	testkit.Holds(t, refused, "the subscription took as much as it liked")
	c.conn.CloseNow()
	r.streamsAre(0)
	r.until("the memory is free", func() bool { return budget.Used() == others.Held })
}
