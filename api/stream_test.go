package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/stream"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// streamClient is the client's end of a stream. It sends requests with ascending numbers.
type streamClient struct {
	*rig
	conn   *websocket.Conn
	n      int
	queued []map[string]any // received but not read by the test yet
}

// open opens a stream.
func (r *rig) open(change ...func(*websocket.DialOptions)) *streamClient {
	r.Helper()
	o := websocket.DialOptions{Subprotocols: []string{stream.Protocol}}
	for _, f := range change {
		f(&o)
	}
	conn, answer, err := websocket.Dial(r.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/stream", &o)
	testkit.NoError(r, err, "open stream", answer)
	conn.SetReadLimit(-1)
	r.Cleanup(func() { _ = conn.CloseNow() })
	return &streamClient{rig: r, conn: conn}
}

// send sends a request with one verb and returns its number.
func (c *streamClient) send(verb, body string, more ...string) int {
	c.Helper()
	c.n++
	c.text(fmt.Sprintf(`{"n":%d,%q:%s%s}`, c.n, verb, body, strings.Join(more, "")))
	return c.n
}

func (c *streamClient) text(text string) {
	c.Helper()
	testkit.NoError(c, c.conn.Write(c.Context(), websocket.MessageText, []byte(text)), "send", text)
}

// next returns the first line, received or future, that match accepts.
func (c *streamClient) next(match func(map[string]any) bool) map[string]any {
	c.Helper()
	for {
		for i, o := range c.queued {
			if match(o) {
				c.queued = append(c.queued[:i:i], c.queued[i+1:]...)
				return o
			}
		}
		ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
		_, text, err := c.conn.Read(ctx)
		cancel()
		testkit.NoError(c, err, "read after", c.queued)
		for line := range strings.Lines(string(text)) {
			var o map[string]any
			testkit.NoError(c, json.Unmarshal([]byte(line), &o), "line", line)
			c.queued = append(c.queued, o)
		}
	}
}

// answer returns the answer to a request.
func (c *streamClient) answer(n int) map[string]any {
	c.Helper()
	return c.next(func(o map[string]any) bool { return o["n"] == float64(n) })
}

// ok returns the document of the answer to a request, which must be a success.
func (c *streamClient) ok(n int) map[string]any {
	c.Helper()
	o := c.answer(n)
	doc, ok := o["ok"].(map[string]any)
	testkit.MustHold(c, ok, "request", n, "is refused", o)
	return doc
}

// refusal checks that a request is refused with a code.
func (c *streamClient) refusal(n int, code string) map[string]any {
	c.Helper()
	o := c.answer(n)
	p, _ := o["problem"].(map[string]any)
	testkit.MustHold(c, p["code"] == code, "request", n, o, "want", code)
	return p
}

// pushed returns the next jobs that a subscription sends.
func (c *streamClient) pushed(subscription int) (claim string, ids []string) {
	c.Helper()
	o := c.next(func(o map[string]any) bool { return o["subscription"] == float64(subscription) && o["jobs"] != nil })
	for _, j := range o["jobs"].([]any) {
		ids = append(ids, j.(map[string]any)["job_id"].(string))
	}
	return o["claim_id"].(string), ids
}

// status returns the status of a job as HTTP shows it.
func (r *rig) status(id string) string {
	r.Helper()
	return r.get("/jobs/" + id).object(http.StatusOK)["status"].(string)
}

// until waits until a condition of the server holds.
func (r *rig) until(what string, holds func() bool) { r.Helper(); testkit.Eventually(r, what, holds) }

// await waits until a job has a status, and returns its document.
func (r *rig) await(id, status string) (doc map[string]any) {
	r.Helper()
	r.until("job "+id+" is "+status, func() bool { doc = r.get("/jobs/" + id).object(http.StatusOK); return doc["status"] == status })
	return doc
}

func TestStream(t *testing.T) {
	r := start(t)
	c := r.open()
	want(t, c.ok(c.send("hello", `{"runner_id":"r1"}`)), "heartbeat_ms", 5000.0, "max_requests", 256.0)
	sub := c.send("subscribe", `{"types":["resize"],"credit":2}`)
	c.ok(sub)

	var made []string
	for i := range 5 {
		o := c.answer(c.send("create", fmt.Sprintf(`{"type":"resize","payload":"p%d"}`, i)))
		testkit.Holds(t, o["seq"] != nil, "a create has no seq", o)
		made = append(made, o["ok"].(map[string]any)["job_id"].(string))
	}
	// The server hands out two jobs, and more only when one of them ends.
	held := map[string]string{}
	for len(held) < 2 {
		claim, ids := c.pushed(sub)
		for _, id := range ids {
			held[id] = claim
		}
	}
	testkit.MustHold(t, len(held) == 2 && held[made[0]] != "" && held[made[1]] != "", "handed out", held, "of", made)
	want(t, c.ok(c.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok","output":"done"}`, made[0], held[made[0]]))), "status", "completed")
	_, ids := c.pushed(sub)
	testkit.MustHold(t, len(ids) == 1 && ids[0] == made[2], "then", ids)
	want(t, r.get("/jobs/"+made[0]).object(200), "status", "completed", "output", "done", "runner_id", "r1")
	// A repeated completion has the same answer, and frees no more credit.
	want(t, c.ok(c.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok","output":"done"}`, made[0], held[made[0]]))), "status", "completed")
	// The server hands out the returned job again at once, because it is the oldest.
	want(t, c.ok(c.send("release", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"how":"unget"}`, made[1], held[made[1]]))), "status", "pending")
	held[made[1]], ids = c.pushed(sub)
	testkit.MustHold(t, len(ids) == 1 && ids[0] == made[1], "after the release", ids)
	want(t, c.ok(c.send("tickle", `{"lease_ms":60000}`)), "held", 2.0)
	p := c.refusal(c.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok"}`, made[1], held[made[0]])), "claim_lost")
	want(t, p, "status", 409.0, "outcome", "not_stored")
	// The credit is still two jobs.
	c.ok(c.send("credit", fmt.Sprintf(`{"subscription":%d,"credit":4}`, sub)))
	_, ids = c.pushed(sub)
	testkit.MustHold(t, len(ids) == 2 && ids[0] == made[3] && ids[1] == made[4], "with more credit", ids)
	c.ok(c.send("unsubscribe", fmt.Sprintf(`{"subscription":%d}`, sub)))
	last := c.ok(c.send("create", `{"type":"resize"}`))["job_id"].(string)
	// When the connection ends, its held jobs go back without an attempt.
	testkit.Check(t, c.conn.Close(websocket.StatusNormalClosure, ""))
	for _, id := range made[1:] {
		want(t, r.await(id, "pending"), "run_attempts", 0.0)
	}
	testkit.Equal(t, r.status(last), "pending", "a job was handed out after the subscription had ended")
}

// TestStreamCreates: many creates in one message are stored in their order, and a list is one batch.
func TestStreamCreates(t *testing.T) {
	r := start(t)
	c := r.open()
	var text strings.Builder
	const n = 200
	for i := range n {
		fmt.Fprintf(&text, "{\"n\":%d,\"create\":{\"payload\":{\"i\":%d}}}\n", i, i)
	}
	c.text(text.String())
	var ids []string
	for i := range n {
		ids = append(ids, c.ok(i)["job_id"].(string))
	}
	for i := 1; i < n; i++ {
		testkit.MustHold(t, ids[i-1] < ids[i], "job", i-1, "has the id", ids[i-1], "job", i, ids[i])
	}
	want(t, r.get("/jobs/"+ids[n-1]).object(200), "payload", map[string]any{"i": float64(n - 1)})
	c.n = n
	want(t, c.ok(c.send("create", `[{"payload":"a"},{"payload":"b"}]`)), "count", 2.0)
	unique := `{"payload":"u","unique_key":"k"}`
	first := c.ok(c.send("create", unique))
	second := c.ok(c.send("create", unique))
	want(t, first, "existing", false)
	want(t, second, "existing", true, "job_id", first["job_id"])
	// A create with a key is carried out once, over the stream and over HTTP.
	keyed := c.ok(c.send("create", `{"payload":"k"}`, `,"idempotency_key":"once"`))
	again := c.ok(c.send("create", `{"payload":"k"}`, `,"idempotency_key":"once"`))
	want(t, again, "job_id", keyed["job_id"])
	want(t, r.post("/jobs/create", `{"payload":"k"}`, "Idempotency-Key", "once").object(201), "job_id", keyed["job_id"])
	session := r.post("/sessions", `{}`).object(201)["session_id"].(string)
	in := fmt.Sprintf(`,"session":{"id":%q,"slot":3,"number":7}`, session)
	numbered := c.ok(c.send("create", `{"payload":"s"}`, in))
	again = c.ok(c.send("create", `{"payload":"s"}`, in))
	want(t, again, "job_id", numbered["job_id"])
}

func TestStreamRefusals(t *testing.T) {
	r := start(t)
	c := r.open()
	for _, x := range []struct{ verb, body, code, field string }{
		{"create", `{"payloads":1}`, "bad_request", "payloads"},
		{"create", `[{"type":"a"},{"type":"b c"}]`, "bad_request", "jobs[1].type"},
		{"create", `7`, "bad_request", ""},
		{"complete", `{"job_id":"x","code":"ok"}`, "bad_id", "job_id"},
		{"complete", fmt.Sprintf(`{"job_id":%q,"code":"ok"}`, unknownID), "job_not_found", ""},
		{"complete", `{"code":"ok"}`, "bad_request", "claim_id"},
		{"tickle", `{}`, "bad_request", "job_ids"},
		{"release", `{"how":"unget"}`, "bad_request", "job_id"},
		{"subscribe", `{"credit":1}`, "bad_request", "runner_id"},
		{"credit", `{"subscription":1,"credit":1}`, "bad_request", "subscription"},
		{"unsubscribe", `{}`, "bad_request", "subscription"},
		{"fly", `{}`, "bad_request", "fly"},
		{"hello", `{"linger_ms":-1}`, "bad_request", "linger_ms"},
		{"hello", `{"claims":["` + unknownID + `"]}`, "bad_request", "runner_id"},
	} {
		p := c.refusal(c.send(x.verb, x.body), x.code)
		field, _ := p["field"].(string)
		testkit.Equal(t, field, x.field, x.verb, x.body, "field", p["detail"])
	}
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	c.refusal(c.send("hello", `{"runner_id":"r"}`), "bad_request")
	want(t, c.ok(c.send("tickle", `{}`)), "held", 0.0) // of all its jobs, which are none
	c.refusal(c.send("tickle", `{"runner_id":"r"}`), "claim_lost")
	c.refusal(c.send("subscribe", `{}`), "bad_request")
	c.refusal(c.send("subscribe", `{"credit":10001}`), "bad_request")
	c.refusal(c.send("create", `{}`, `,"tickle":{}`), "bad_request")
	c.refusal(c.send("tickle", `{}`, `,"idempotency_key":"k"`), "bad_request")
	for i := range stream.MaxSubscriptions {
		c.ok(c.send("subscribe", fmt.Sprintf(`{"credit":1,"types":["t%d"]}`, i)))
	}
	c.refusal(c.send("subscribe", `{"credit":1}`), "bad_request")

	// A message that cannot be answered by number ends the stream.
	for _, text := range []string{"{}", "nonsense", `{"n":-1,"hello":{}}`, `{"n":9007199254740992,"hello":{}}`, "[]"} {
		c := r.open()
		c.text(text)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, _, err := c.conn.Read(ctx)
		cancel()
		testkit.Holds(t, websocket.CloseStatus(err) == websocket.StatusPolicyViolation &&
			(!strings.Contains(text, `"n"`) || strings.Contains(err.Error(), "whole number")), text, err)
	}
	for _, h := range [][]string{
		{}, {"Connection", "Upgrade"}, {"Connection", "Upgrade", "Upgrade", "h2c"},
	} {
		r.get("/stream", h...).refused(http.StatusUpgradeRequired, "upgrade_required")
	}
	r.get("/stream", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "short").wrong("Sec-WebSocket-Key")
	r.get("/stream", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg==").wrong("Sec-WebSocket-Protocol")
}

// TestStreamResumes: jobs of a lingering stream stay with the runner, which lists the claims that it has received.
func TestStreamResumes(t *testing.T) {
	r := start(t)
	r.post("/jobs/create", `[{},{},{}]`).object(201)
	c := r.open()
	hello := c.ok(c.send("hello", `{"runner_id":"r","linger_ms":60000}`))
	sub := c.send("subscribe", `{"credit":1,"max":1}`)
	first, one := c.pushed(sub)
	c.ok(c.send("credit", fmt.Sprintf(`{"subscription":%d,"credit":2}`, sub)))
	_, two := c.pushed(sub)
	c.conn.CloseNow()

	d := r.open()
	resumed := d.ok(d.send("hello", fmt.Sprintf(`{"runner_id":"r","resume":%q,"claims":[%q,%q]}`, hello["stream_id"], first, unknownID)))
	claims := resumed["claims"].([]any)
	testkit.MustHold(t, len(claims) == 1 && claims[0].(map[string]any)["claim_id"] == first &&
		claims[0].(map[string]any)["held"] == 1.0, "resumed with", claims)
	want(t, r.get("/jobs/"+one[0]).object(200), "status", "active")
	want(t, r.await(two[0], "pending"), "run_attempts", 0.0)
	// The claim counts against the credit of the first subscription.
	sub = d.send("subscribe", `{"credit":2}`)
	_, got := d.pushed(sub)
	testkit.MustEqual(t, len(got), 1)
	want(t, d.ok(d.send("complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, first))), "ended", 1.0)
	_, got = d.pushed(sub)
	testkit.MustEqual(t, len(got), 1)
	// Nobody can take claims over without the name of their runner.
	e := r.open()
	stolen := e.ok(e.send("hello", fmt.Sprintf(`{"runner_id":"x","claims":[%q]}`, first)))
	testkit.Equal(t, len(stolen["claims"].([]any)), 0, "a runner with another name has", stolen)
}

// TestStreamLingers: after linger_ms the jobs go back.
func TestStreamLingers(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{}`).object(201)["job_id"].(string)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r","linger_ms":50}`))
	c.pushed(c.send("subscribe", `{"credit":1}`))
	c.conn.CloseNow()
	want(t, r.await(id, "pending"), "run_attempts", 0.0)
}

// TestStreamHeartbeat: a client that answers no ping loses its connection, and its jobs go back.
func TestStreamHeartbeat(t *testing.T) {
	r := start(t, func(o *setup) { o.StreamHeartbeat = 20 * time.Millisecond })
	id := r.post("/jobs/create", `{}`).object(201)["job_id"].(string)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	c.pushed(c.send("subscribe", `{"credit":1}`))
	want(t, r.await(id, "pending"), "run_attempts", 0.0) // nothing reads the connection, so no pong is sent
	pings := make(chan struct{})
	d := r.open(func(o *websocket.DialOptions) {
		o.OnPingReceived = func(ctx context.Context, _ []byte) bool {
			select {
			case pings <- struct{}{}:
			case <-ctx.Done():
			}
			return true
		}
	})
	go d.conn.CloseRead(t.Context()) // answers pings
	for range 3 * stream.MissedHeartbeats {
		<-pings
	}
	open, _ := r.server.streams.Count()
	testkit.Equal(t, open, 1, "streams are open, beside one that answers pings")
}

// TestStreamShutdown: the server answers the requests that it has received, announces that it is going away, and keeps
// the claims. The runner continues after the restart.
func TestStreamShutdown(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{}`).object(201)["job_id"].(string)
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	c.pushed(c.send("subscribe", `{"credit":1}`))
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, _, err := c.conn.Read(ctx)
	testkit.Equal(t, websocket.CloseStatus(err), stream.StatusDone, "read", err)
	<-stopped
	parsed := testkit.Must(job.ParseID(id))(t)
	j, _ := testkit.Must2(r.engine.JobWithin(parsed, 1<<20))(t)
	testkit.Equal(t, j.Status, job.Active, "the job")
}

// TestStreamAtShutdown: a server that shuts down opens no stream.
func TestStreamAtShutdown(t *testing.T) {
	r := start(t)
	r.server.web.Drain()
	r.get("/stream", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg==",
		"Sec-WebSocket-Protocol", stream.Protocol).refused(http.StatusServiceUnavailable, "shutting_down")
}

// TestLongPush: jobs of many bytes are sent in one message, in order.
func TestLongPush(t *testing.T) {
	r := start(t)
	var made []string
	for range 3 {
		made = append(made, r.post("/jobs/create", fmt.Sprintf(`{"payload":%q}`, repeat('x', 2<<20))).object(201)["job_id"].(string))
	}
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r"}`))
	sub := c.send("subscribe", `{"credit":3}`)
	var got []string
	for len(got) < 3 {
		_, ids := c.pushed(sub)
		got = append(got, ids...)
	}
	testkit.Equal(t, fmt.Sprint(got), fmt.Sprint(made), made)
}

// TestStreamConnectionsAreCounted: a stream occupies the place of a connection until it ends.
func TestStreamConnectionsAreCounted(t *testing.T) {
	r := start(t)
	c := r.open()
	c.ok(c.send("hello", `{}`))
	open, _ := r.server.web.Connections()
	c.conn.CloseNow()
	r.until("the connection is no longer counted", func() bool { now, _ := r.server.web.Connections(); return now == open-1 })
}

// TestPushInRuns: jobs in runs are a binary message, and completions of such jobs free their credit.
func TestPushInRuns(t *testing.T) {
	r := start(t)
	r.add("/add", strings.Repeat("line\n", 300))
	c := r.open()
	c.ok(c.send("hello", `{"runner_id":"r","jobs":"runs"}`))
	c.refusal(c.send("subscribe", `{"credit":"many"}`), "bad_request")
	sub := c.send("subscribe", `{"credit":100}`)
	got := 0
	for got < 300 {
		kind, text := testkit.Must2(c.conn.Read(t.Context()))(t)
		if kind == websocket.MessageText {
			continue // answers
		}
		rest, ok := bytes.CutPrefix(text, fmt.Appendf(nil, "#:push subscription=%d\n", sub))
		if !ok {
			t.Fatalf("a binary message begins %.80q", text)
		}
		d := runs.NewDecoder(rest)
		head := testkit.Must(d.Claim())(t)
		for range head.Runs {
			run := testkit.Must(d.Run(&head))(t)
			got += run.N
		}
		testkit.NoError(t, d.End())
		c.send("complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, head.ID))
	}
}
