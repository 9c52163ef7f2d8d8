package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// TestBegunRuns: when a stream ends, the runs that its client has reported as begun count as attempts, and their jobs
// wait for their backoff. The other jobs are pending at once, and have lost no attempt.
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
		testkit.MustEqual(t, len(ids), 5)
		// Reported with a number, without one, by a tickle that names the job, and for a run that has ended since.
		c.ok(c.send("begin", fmt.Sprintf(`{"claim_id":%q,"job_ids":[%q]}`, claim, ids[0])))
		c.text(fmt.Sprintf(`{"begin":{"claim_id":%q,"job_ids":[%q,%q]}}`, claim, ids[1], ids[3]))
		c.ok(c.send("tickle", fmt.Sprintf(`{"job_ids":[%q]}`, ids[2])))
		c.ok(c.send("complete", fmt.Sprintf(`{"job_id":%q,"claim_id":%q,"code":"ok"}`, ids[3], claim)))
		c.ok(c.send("tickle", `{}`)) // it reports no begun job
		return c, stream, claim, ids
	}
	judge := func(ids []string) {
		t.Helper()
		for _, id := range ids[:3] {
			doc := r.await(id, "deferred")
			want(t, doc, "run_attempts", 1.0, "code", "lost")
			attempts := doc["attempts"].([]any)
			testkit.MustEqual(t, len(attempts), 1, doc)
			want(t, attempts[0].(map[string]any), "why", "runner_lost", "runner_id", "r", "error", "its runner was lost")
		}
		want(t, r.await(ids[3], "completed"), "run_attempts", 1.0)
		doc := r.await(ids[4], "pending")
		want(t, doc, "run_attempts", 0.0)
		testkit.Equal(t, len(doc["attempts"].([]any)), 0, doc)
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
			claims := d.ok(d.send("hello", fmt.Sprintf(`{"runner_id":"r",%s"claims":[%q]}`, resume, claim)))["claims"].([]any)
			testkit.MustHold(t, len(claims) == 1, "took over", claims)
			_ = c.conn.CloseNow() // otherwise the stream would receive the released job
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
		testkit.Equal(t, len(doc["attempts"].([]any)), 0, doc)
	})
}

// TestTickleOfOneJobBegins: a tickle of one job over HTTP that names its claim reports that the run has begun.
func TestTickleOfOneJobBegins(t *testing.T) {
	r := start(t)
	c, _, claim, id := r.holdOne(`{"runner_id":"r"}`)
	r.post("/jobs/"+id+"/tickle", fmt.Sprintf(`{"claim_id":%q}`, claim)).object(http.StatusOK)
	_ = c.conn.CloseNow()
	want(t, r.await(id, "deferred"), "run_attempts", 1.0, "code", "lost")
}

// early is an engine whose leases seem to end sooner than they do.
type early struct {
	backend.Engine
	byMs atomic.Int64
}

func (e *early) ClaimDocument(id job.ID, parts query.Parts) (document.Claim, []job.Job, error) {
	doc, jobs, err := e.Engine.ClaimDocument(id, parts)
	for i := range jobs {
		jobs[i].DeadlineAt -= e.byMs.Load()
	}
	return doc, jobs, err
}

// TestLingerEndsWithTheLease: a lingering claim goes back shortly before its lease ends, because the end of a lease
// counts an attempt of each job. It stays if any tickle has made the lease longer than the stream knows.
func TestLingerEndsWithTheLease(t *testing.T) {
	const leaseMs = 100_000
	ends := &early{}
	r := start(t, func(s *setup) { ends.Engine = s.engine; s.engine = ends })
	hold := func(typ string, hello string) (c *streamClient, h job.ID, claim string, ids []string) {
		r.post("/jobs/create", fmt.Sprintf(`[{"type":%q},{"type":%[1]q}]`, typ)).object(http.StatusCreated)
		c = r.open()
		c.ok(c.send("hello", hello))
		claim, ids = c.pushed(c.send("subscribe", fmt.Sprintf(`{"types":[%q],"credit":2,"max":2,"lease_ms":%d}`, typ, leaseMs)))
		testkit.MustEqual(t, len(ids), 2)
		c.ok(c.send("begin", fmt.Sprintf(`{"claim_id":%q,"job_ids":[%q]}`, claim, ids[0])))
		h = testkit.Must(job.ParseID(claim))(t)
		return c, h, claim, ids
	}
	lingering := func(n int) {
		r.until("so many streams linger", func() bool { _, l := r.server.streams.Count(); return l == n })
	}

	c, h, _, ids := hold("short", `{"runner_id":"r","linger_ms":600000}`)
	ends.byMs.Store(leaseMs - 1000) // less than maxLeaseMargin is left
	r.server.streams.Age(h)
	_ = c.conn.CloseNow()
	want(t, r.await(ids[0], "deferred"), "run_attempts", 1.0, "code", "lost")
	want(t, r.await(ids[1], "pending"), "run_attempts", 0.0)
	lingering(0)
	ends.byMs.Store(0)

	for name, tickle := range map[string]string{
		"nothing": "", "claim": `{"claim_id":"CLAIM"}`, "jobs": `{"job_ids":["JOB0","JOB1"]}`, "runner": `{"runner_id":"RUNNER"}`, "shorter": `{"lease_ms":1000}`,
	} {
		t.Run(name, func(t *testing.T) {
			c, h, claim, ids := hold("long-"+name, fmt.Sprintf(`{"runner_id":"long-%s","linger_ms":600000}`, name))
			if tickle != "" {
				c.ok(c.send("tickle", strings.NewReplacer("CLAIM", claim, "JOB0", ids[0], "JOB1", ids[1], "RUNNER", "long-"+name).Replace(tickle)))
			}
			r.server.streams.Age(h)
			_ = c.conn.CloseNow()
			lingering(1)
			r.until("the server has looked the lease up", func() bool { return !r.server.streams.IsDueAt(h, time.Now()) })
			for _, id := range ids {
				want(t, r.get("/jobs/"+id).object(http.StatusOK), "status", "active")
			}
			r.server.streams.ExpireAll()
			lingering(0)
		})
	}
}

// TestBeginRefused: a begin without a number gets no answer, so a mistake in it ends the stream.
func TestBeginRefused(t *testing.T) {
	r := start(t)
	c := r.open()
	c.refusal(c.send("begin", `{}`), "bad_request")
	c.refusal(c.send("begin", fmt.Sprintf(`{"claim_id":%q,"job_ids":[]}`, unknownID)), "bad_request")
	c.ok(c.send("begin", fmt.Sprintf(`{"claim_id":%q}`, unknownID))) // of a claim that the stream does not hold
	c.text(`{"begin":{"job_ids":[7]}}`)
	_, _, err := c.conn.Read(t.Context())
	testkit.Equal(t, websocket.CloseStatus(err), websocket.StatusPolicyViolation, "read", err)
}

// TestBeginsOfAClaim: a claim over HTTP says how many of its jobs begin with it; the rest begin when a tickle names
// them.
func TestBeginsOfAClaim(t *testing.T) {
	r := start(t)
	r.post("/jobs/claim", `{"runner_id":"r","begins":-1}`).wrong("begins")
	r.post("/jobs/claim", `{"runner_id":"r","begins":1001}`).wrong("begins")
}
