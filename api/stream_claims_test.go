package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

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
	if _, ids := c.pushed(sub); len(ids) != 1 {
		t.Errorf("got %v", ids)
	}
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
