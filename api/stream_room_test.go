package api

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/internal/wsframe/wsframetest"
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
	_, answer := r.tryOpen()
	testkit.Holds(t, answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") == "1", "one stream too many", answer)
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
	r.until("the message arrives", func() bool { return r.server.bulk.Used()+r.server.control.Used() > 0 })
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

// holdOne opens a stream whose runner holds one job.
func (r *rig) holdOne(hello string) (c *streamClient, stream, claim, id string) {
	r.Helper()
	r.post("/jobs/create", `{}`).object(http.StatusCreated)
	c = r.open()
	stream = c.ok(c.send("hello", hello))["stream_id"].(string)
	claim, ids := c.pushed(c.send("subscribe", `{"credit":1}`))
	return c, stream, claim, ids[0]
}

// streamsAre waits until the server has n streams.
func (r *rig) streamsAre(n int) {
	r.Helper()
	r.until(fmt.Sprint(n, " streams"), func() bool { open, _ := r.server.streams.Count(); return open == n })
}

// TestStreamTakesClaimsOver: a claim belongs to the last stream that named it, also without resume.
func TestStreamTakesClaimsOver(t *testing.T) {
	r := start(t)
	c, _, claim, id := r.holdOne(`{"runner_id":"r"}`)
	d := r.open()
	hello := fmt.Sprintf(`{"runner_id":"r","claims":[%q,%q]}`, claim, claim)
	testkit.MustEqual(t, len(d.ok(d.send("hello", hello))["claims"].([]any)), 1, "took over")
	c.conn.CloseNow()
	r.streamsAre(1)
	testkit.Equal(t, r.status(id), "active", "the job, after its first stream has ended")
	d.conn.CloseNow()
	r.await(id, "pending")
}

// TestStreamOfAnotherRunner: a runner with another name can neither end a stream nor take its claims.
func TestStreamOfAnotherRunner(t *testing.T) {
	r := start(t)
	c, stream, claim, id := r.holdOne(`{"runner_id":"r"}`)
	d := r.open()
	hello := fmt.Sprintf(`{"runner_id":"x","resume":%q,"claims":[%q]}`, stream, claim)
	testkit.Equal(t, len(d.ok(d.send("hello", hello))["claims"].([]any)), 0, "took over")
	d.conn.CloseNow()
	c.ok(c.send("tickle", `{}`))
	testkit.Equal(t, r.status(id), "active", "the job")
}

// TestStreamCreditAfterRefusals: a request of another runner frees no credit, and takes no job from the stream.
func TestStreamCreditAfterRefusals(t *testing.T) {
	r := start(t)
	c, _, claim, id := r.holdOne(`{"runner_id":"r"}`)
	r.post("/jobs/create", `{}`).object(http.StatusCreated)
	c.refusal(c.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"runner_id":"x","code":"ok"}`, id, claim)), "runner_differs")
	c.refusal(c.send("complete", fmt.Sprintf(`{"claim_id":%q,"runner_id":"x","code":"ok"}`, claim)), "runner_differs")
	r.post("/jobs/tickle", fmt.Sprintf(`{"claim_id":%q,"runner_id":"x"}`, claim)).refused(http.StatusConflict, "runner_differs")
	c.ok(c.send("tickle", `{}`))
	for _, o := range c.queued {
		testkit.Holds(t, o["jobs"] == nil, "a job beyond the credit", o)
	}
	c.conn.CloseNow()
	want(t, r.await(id, "pending"), "run_attempts", 0.0)
}

// TestStreamCreditIsLowered: credit reaches a claim that waits for jobs.
func TestStreamCreditIsLowered(t *testing.T) {
	r := start(t)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	sub := c.send("subscribe", `{"credit":5}`)
	c.ok(sub)
	c.ok(c.send("credit", fmt.Sprintf(`{"subscription":%d,"credit":0}`, sub)))
	r.add("/add", "a\nb\nc\n")
	c.ok(c.send("create", `{}`))
	for _, o := range c.queued {
		testkit.Holds(t, o["jobs"] == nil, "jobs without credit", o)
	}
	c.ok(c.send("credit", fmt.Sprintf(`{"subscription":%d,"credit":1}`, sub)))
	_, ids := c.pushed(sub)
	testkit.Equal(t, len(ids), 1, "with a credit of one")
}

// TestStreamCreditBelowHeld: if a credit is lower than the number of held jobs, the runner keeps them all. Jobs arrive
// again when it has room.
func TestStreamCreditBelowHeld(t *testing.T) {
	r := start(t)
	r.post("/jobs/create", `[{},{},{},{}]`).object(http.StatusCreated)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	sub := c.send("subscribe", `{"credit":3}`)
	claim, ids := c.pushed(sub)
	testkit.MustEqual(t, len(ids), 3)
	c.ok(c.send("credit", fmt.Sprintf(`{"subscription":%d,"credit":1}`, sub)))
	c.ok(c.send("complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, claim)))
	_, ids = c.pushed(sub)
	testkit.Equal(t, len(ids), 1, "got", ids)
}

// TestStreamWithoutClaimIDs: a completion that does not name the claim frees credit.
func TestStreamWithoutClaimIDs(t *testing.T) {
	r := start(t)
	r.post("/jobs/create", `[{},{}]`).object(http.StatusCreated)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	sub := c.send("subscribe", `{"credit":1}`)
	_, ids := c.pushed(sub)
	c.ok(c.send("complete", fmt.Sprintf(`{"job_id":%q,"code":"ok"}`, ids[0])))
	_, ids = c.pushed(sub)
	// A completion over HTTP that names the claim frees credit, too.
	r.post("/jobs/create", `{}`).object(http.StatusCreated)
	r.post("/jobs/"+ids[0]+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, r.get("/jobs/" + ids[0]).object(http.StatusOK)["claim_id"])).object(http.StatusOK)
	c.pushed(sub)
}

// TestLingeringClaimIsTickled: a runner that lost its stream and tickles over HTTP keeps its claim.
func TestLingeringClaimIsTickled(t *testing.T) {
	r := start(t)
	c, _, claim, id := r.holdOne(`{"runner_id":"r","linger_ms":60000}`)
	c.conn.CloseNow()
	r.streamsAre(0)
	r.post("/jobs/tickle", fmt.Sprintf(`{"claim_id":%q}`, claim)).object(http.StatusOK)
	r.server.streams.ExpireAll()
	testkit.Equal(t, r.status(id), "active", "the job")
}

// TestNumberAnywhere: a request is answered by its number, even if the number is after the mistake.
func TestNumberAnywhere(t *testing.T) {
	r := start(t)
	c := r.open()
	c.text(`{"fly":{},"n":71}`)
	c.refusal(71, "bad_request")
	c.text(`{"idempotency_key":7,"create":{},"n":72}`)
	c.refusal(72, "bad_request")
}

// frames is a connection to a stream whose frames the test itself writes and reads.
type frames struct {
	*testing.T
	io.Writer
	*bufio.Reader
}

const handshake = "GET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nSec-WebSocket-Protocol: " + stream.Protocol + "\r\n\r\n"

// frames opens a stream.
func (r *rig) frames() *frames {
	r.Helper()
	conn := r.dial()
	r.Cleanup(func() { _ = conn.Close() })
	testkit.Must(io.WriteString(conn, handshake))(r)
	f := &frames{r.T, conn, bufio.NewReader(conn)}
	answer := testkit.Must(http.ReadResponse(f.Reader, nil))(r)
	testkit.MustEqual(r, answer.StatusCode, http.StatusSwitchingProtocols, "open stream:", answer)
	return f
}

// send writes a frame, masked with zeroes.
func (f *frames) send(first byte, text string) {
	f.Helper()
	head := []byte{first, 0x80 | byte(min(len(text), 126))}
	if len(text) >= 126 {
		head = binary.BigEndian.AppendUint16(head, uint16(len(text)))
	}
	testkit.Must(f.Write(append(append(head, 0, 0, 0, 0), text...)))(f)
}

// next reads a frame.
func (f *frames) next() (first byte, length int) {
	f.Helper()
	head := make([]byte, 2, 10)
	more := func(n int) { head = head[:2+n]; testkit.Must(io.ReadFull(f.Reader, head[2:]))(f) }
	testkit.Must(io.ReadFull(f.Reader, head))(f)
	switch length = int(head[1]); length {
	case 126:
		more(2)
		length = int(binary.BigEndian.Uint16(head[2:]))
	case 127:
		more(8)
		length = int(binary.BigEndian.Uint64(head[2:]))
	}
	testkit.Must(f.Discard(length))(f)
	return head[0], length
}

// TestStreamFrames: the server answers a ping while it sends a long message.
func TestStreamFrames(t *testing.T) {
	const long = 3 << 20
	r := start(t)
	r.add("/add", strings.Repeat("x", long)+"\n")
	for _, form := range []string{"json", "runs"} {
		f := r.frames()
		f.send(0x81, `{"n":1,"hello":{"runner_id":"r","jobs":"`+form+`"}}`)
		first, _ := f.next()
		testkit.MustEqual(t, first, 0x81, "hello")
		f.send(0x81, `{"n":2,"subscribe":{"credit":1}}`)
		f.send(0x89, "ping")
		length, pong, pinged := 0, false, false
		for length < long {
			switch first, n := f.next(); {
			case first == 0x8a:
				pong = pong || pinged
			case n > stream.MaxFrameBytes:
				t.Fatalf("%s: a frame has %d bytes", form, n)
			case n > 200: // not the answer to subscribe
				if length += n; !pinged {
					pinged = true
					f.send(0x89, "ping")
				}
				if !pong {
					time.Sleep(10 * time.Millisecond) // real time: a client on a slow line
				}
			}
		}
		testkit.Holds(t, pong, form, "no pong before the end of the message")
		f.send(0x88, "\x03\xe8") // the job goes back
		if first, _ := f.next(); first == 0x80 {
			first, _ = f.next()
			testkit.Equal(t, first, 0x88, form, "instead of a close frame")
		}
		r.streamsAre(0)
	}
}

// TestStreamPings: a flood of pings ends the stream.
func TestStreamPings(t *testing.T) {
	r := start(t)
	f := r.frames()
	for range stream.MaxControls {
		f.send(0x89, "ping")
	}
	for range stream.MaxControls {
		first, _ := f.next()
		testkit.MustEqual(t, first, 0x8a, "a ping is answered")
	}
	flood := strings.Repeat("\x89\x80\x00\x00\x00\x00", 100*stream.MaxControls)
	if _, err := io.WriteString(f, flood); err != nil {
		t.Log(err) // the server has closed the connection already
	}
	if _, err := io.Copy(io.Discard, f.Reader); err != nil {
		t.Log(err)
	}
	r.streamsAre(0)
}

// TestStreamViolations: a client that breaks the rules of WebSockets, or sends a message that is too long, gets a close
// frame with the status and the reason.
func TestStreamViolations(t *testing.T) {
	r := start(t)
	for _, v := range wsframetest.Violations(web.MaxBodyBytes) {
		status, reason, err := wsframetest.Closing(strings.TrimPrefix(r.url, "http://"), handshake, v.Bytes)
		testkit.Holds(t, status == v.Status && reason != "" && err == nil, v.Name, status, reason, err, "want", v.Status)
	}
	r.streamsAre(0)
}
