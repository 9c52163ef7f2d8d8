package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// TestBegunRuns: when a stream ends, the runs that its client has said to have begun count as attempts, and their jobs wait
// for their backoff. The other jobs are pending at once, and have lost nothing.
func TestBegunRuns(t *testing.T) {
	r := start(t)
	types := 0
	hold := func(hello string) (c *streamClient, stream, claim string, ids []string) {
		types++
		one := fmt.Sprintf(`{"type":"t%d","backoff":{"initial_ms":600000,"max_ms":600000}}`, types)
		r.post("/jobs/create", "["+strings.Repeat(one+",", 4)+one+"]").object(http.StatusCreated)
		c = r.open()
		stream = c.ok(c.send("hello", hello))["stream_id"].(string)
		claim, ids = c.pushed(c.send("subscribe", fmt.Sprintf(`{"types":["t%d"],"credit":5}`, types)))
		if len(ids) != 5 {
			t.Fatalf("got %v", ids)
		}
		// Said with a number, without one, by a tickle that names the job, and of a run that has ended since.
		c.ok(c.send("begin", fmt.Sprintf(`{"claim_id":%q,"job_ids":[%q]}`, claim, ids[0])))
		c.text(fmt.Sprintf(`{"begin":{"claim_id":%q,"job_ids":[%q,%q]}}`, claim, ids[1], ids[3]))
		c.ok(c.send("tickle", fmt.Sprintf(`{"job_ids":[%q]}`, ids[2])))
		c.ok(c.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok"}`, ids[3], claim)))
		c.ok(c.send("tickle", `{}`)) // it says of no job that it has begun
		return c, stream, claim, ids
	}
	judge := func(ids []string) {
		t.Helper()
		for _, id := range ids[:3] {
			doc := r.await(id, "deferred")
			want(t, doc, "run_attempts", 1.0, "code", "lost")
			attempts := doc["attempts"].([]any)
			if len(attempts) != 1 {
				t.Fatalf("%v", doc)
			}
			want(t, attempts[0].(map[string]any), "why", "runner_lost", "runner_id", "r", "error", "its runner was lost")
		}
		want(t, r.await(ids[3], "completed"), "run_attempts", 1.0)
		doc := r.await(ids[4], "pending")
		want(t, doc, "run_attempts", 0.0)
		if len(doc["attempts"].([]any)) != 0 {
			t.Errorf("%v", doc)
		}
	}
	t.Run("the connection breaks", func(t *testing.T) {
		c, _, _, ids := hold(`{"runner_id":"r"}`)
		_ = c.conn.CloseNow()
		judge(ids)
	})
	t.Run("after a while", func(t *testing.T) {
		c, _, _, ids := hold(`{"runner_id":"r","linger_ms":1}`)
		_ = c.conn.CloseNow()
		judge(ids)
	})
	t.Run("before the lease ends", func(t *testing.T) {
		c, stream, claim, ids := hold(`{"runner_id":"r","linger_ms":600000}`)
		all := &r.server.streams
		all.mu.Lock()
		h := &all.all[stream].holding
		all.mu.Unlock()
		h.mu.Lock()
		for id, held := range h.claims {
			if id.String() == claim { // the server keeps its real lease, which ends much later
				held.since = time.Now().Add(100*time.Millisecond + maxLeaseMargin - held.lease)
			}
		}
		h.mu.Unlock()
		_ = c.conn.CloseNow()
		judge(ids)
		r.until("the rest lingers", func() bool { _, lingering := all.count(); return lingering == 1 })
	})
	t.Run("another stream has taken the claim over", func(t *testing.T) {
		for _, broken := range []bool{true, false} {
			c, stream, claim, ids := hold(`{"runner_id":"r","linger_ms":60000}`)
			if broken {
				_ = c.conn.CloseNow()
			}
			d := r.open()
			resume := ""
			if broken {
				resume = fmt.Sprintf(`"resume":%q,`, stream)
			}
			if claims := d.ok(d.send("hello", fmt.Sprintf(`{"runner_id":"r",%s"claims":[%q]}`, resume, claim)))["claims"].([]any); len(claims) != 1 {
				t.Fatalf("took over %v", claims)
			}
			_ = c.conn.CloseNow() // it would be sent the job that goes back
			_ = d.conn.CloseNow()
			judge(ids)
		}
	})
	t.Run("a late outcome is accepted", func(t *testing.T) {
		c, _, claim, ids := hold(`{"runner_id":"r"}`)
		_ = c.conn.CloseNow()
		r.await(ids[0], "deferred")
		d := r.open()
		want(t, d.ok(d.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok"}`, ids[0], claim))), "status", "completed")
		d.refusal(d.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok"}`, ids[4], claim)), "claim_lost") // it was given back
		doc := r.get("/jobs/" + ids[0]).object(http.StatusOK)
		want(t, doc, "status", "completed", "run_attempts", 1.0)
		if len(doc["attempts"].([]any)) != 0 {
			t.Errorf("%v", doc)
		}
	})
}

// TestBeginRefused: a begin without a number has no answer, so a mistake in it ends the stream.
func TestBeginRefused(t *testing.T) {
	r := start(t)
	c := r.open()
	c.refusal(c.send("begin", `{}`), "bad_request")
	c.refusal(c.send("begin", fmt.Sprintf(`{"claim_id":%q,"job_ids":[]}`, unknownID)), "bad_request")
	c.ok(c.send("begin", fmt.Sprintf(`{"claim_id":%q}`, unknownID))) // of a claim that the stream does not hold
	c.text(`{"begin":{"job_ids":[7]}}`)
	if _, _, err := c.conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("read: %v", err)
	}
}

// TestBeginsOfAClaim: a claim over HTTP says how many of its jobs begin with it; the others begin when a tickle names them.
func TestBeginsOfAClaim(t *testing.T) {
	r := start(t)
	r.post("/jobs/claim", `{"runner_id":"r","begins":-1}`).wrong("begins")
	r.post("/jobs/claim", `{"runner_id":"r","begins":1001}`).wrong("begins")
}
