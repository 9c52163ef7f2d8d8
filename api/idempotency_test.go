package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func TestRepeatedCreate(t *testing.T) {
	r := start(t)
	for _, c := range []struct{ name, path, body, other, kind string }{
		{"one job", "/jobs/create", `{"payload":"p","delay_ms":60000,"unique_key":"u"}`, `{"payload":"q"}`, web.MIMEJSON},
		{"an array", "/jobs/create", `[{"payload":"p"},{"payload":"p","unique_key":"v"},{"unique_key":"v"}]`, `[]x`, web.MIMEJSON},
		{"lines", "/add?client=acme&jobtype=x", "a\n\nb", "a\nb", web.MIMEText},
		{"lines of a queue", "/beta/job/x/add", "a\n", "b\n", web.MIMEText},
	} {
		t.Run(c.name, func(t *testing.T) {
			post := func(path, body, key string) reply {
				return r.do(http.MethodPost, path, strings.NewReader(body), "Content-Type", c.kind, "Idempotency-Key", key)
			}
			key := "k 1 " + c.name
			first := post(c.path, c.body, key)
			again := post(c.path, c.body, key)
			if first.status != http.StatusCreated || again.status != first.status || again.body != first.body || again.header.Get("Daybook-Seq") != first.header.Get("Daybook-Seq") {
				t.Errorf("%d %s\nand again %d %s", first.status, first.body, again.status, again.body)
			}
			if got, was := again.header.Get("Idempotency-Replayed"), first.header.Get("Idempotency-Replayed"); got != "true" || was != "" {
				t.Errorf("Idempotency-Replayed %q, first %q", got, was)
			}
			if other := post(c.path, c.other, key); other.status != http.StatusBadRequest {
				other.refused(http.StatusUnprocessableEntity, "key_reused")
			}
			if fresh := post(c.path, c.body, "k 2 "+c.name); fresh.body == first.body && fresh.header.Get("Daybook-Seq") == first.header.Get("Daybook-Seq") {
				t.Errorf("another key: %s", fresh.body)
			}
		})
	}
	before := r.commands()
	r.post("/jobs/create", `{"payload":"p","delay_ms":60000,"unique_key":"u"}`, "Idempotency-Key", "k 1 one job").object(http.StatusCreated)
	testkit.Equal(t, r.commands(), before, "a repeat was journaled commands, then")
	for name, key := range map[string]string{"empty": "", "long": strings.Repeat("k", job.MaxKeyBytes+1), "tab": "a\tb"} {
		t.Run(name, func(t *testing.T) { r.post("/jobs/create", `{}`, "Idempotency-Key", key).wrong("Idempotency-Key") })
	}
	r.post("/jobs/create", `{}`, "Idempotency-Key", strings.Repeat("k", job.MaxKeyBytes)).object(http.StatusCreated)
	r.post("/jobs/create", `{}`, "Idempotency-Key", "a", "Idempotency-Key", "b").wrong("Idempotency-Key")
}

func TestRepeatedClaim(t *testing.T) {
	r := start(t)
	r.add("/add", "a\nb\nc\nd\n")
	claim := func(body, key string) reply { return r.post("/jobs/claim", body, "Idempotency-Key", key) }
	const two, one = `{"runner_id":"r","max":2}`, `{"runner_id":"r"}`
	first := claim(two, "1").object(http.StatusOK)
	again := claim(two, "1")
	o := again.object(http.StatusOK)
	want(t, o, "claim_id", first["claim_id"], "lease_ms", first["lease_ms"])
	if got, was := ids(o), ids(first); len(got) != 2 || got[0] != was[0] || got[1] != was[1] || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%v, first %v, %v", got, was, again.header)
	}
	r.post("/jobs/"+ids(first)[0]+"/complete", `{"status":"completed"}`).object(http.StatusOK)
	got := ids(claim(two, "1").object(http.StatusOK))
	testkit.Holds(t, len(got) == 1 && got[0] == ids(first)[1], "after one has ended", got)
	r.post("/jobs/complete", `{"claim_id":"`+first["claim_id"].(string)+`","status":"completed"}`).object(http.StatusOK)
	o = claim(two, "1").object(http.StatusOK)
	want(t, o, "claim_id", first["claim_id"])
	testkit.Equal(t, len(ids(o)), 0, "after all have ended")
	claim(one, "1").refused(http.StatusUnprocessableEntity, "key_reused")

	single := claim(one, "2").object(http.StatusOK)
	want(t, claim(one, "2").object(http.StatusOK), "job_id", single["job_id"])
	r.post("/jobs/"+single["job_id"].(string)+"/complete", `{"status":"completed"}`).object(http.StatusOK)
	if a := claim(one, "2"); a.status != http.StatusNoContent || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %v", a.status, a.header)
	}
	// Another runner can use the same key. A claim that got no jobs is carried out again.
	const other = `{"runner_id":"s","max":2}`
	testkit.Equal(t, len(ids(claim(other, "1").object(http.StatusOK))), 1, "another runner")
	a := claim(`{"runner_id":"s"}`, "3")
	testkit.Equal(t, a.status, http.StatusNoContent, a.body)
	r.add("/add", "e\n")
	if a := claim(`{"runner_id":"s"}`, "3"); a.status != http.StatusOK || a.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
