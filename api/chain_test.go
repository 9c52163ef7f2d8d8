package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// claimed claims a job of a type.
func (r *rig) claimed(typ string) (id, claim string) {
	r.Helper()
	o := r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","types":[%q]}`, typ)).object(http.StatusOK)
	return o["job_id"].(string), o["claim_id"].(string)
}

// then returns n jobs for an outcome to create.
func then(typ string, n int) string {
	return `"then":[` + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"type":%q},`, typ), n), ",") + `]`
}

// TestThen: the jobs of an outcome are created, in each form of a completion, and count against their bounds.
func TestThen(t *testing.T) {
	r := start(t)
	pending := func(typ string, n int) {
		t.Helper()
		want(t, r.get("/queues/default/" + typ).object(http.StatusOK)["counts"].(map[string]any), "pending", float64(n))
	}
	hold := func(typ string, n int) (claim string, ids []any) {
		t.Helper()
		r.add("/add?jobtype="+typ, strings.Repeat("x\n", n)).object(http.StatusCreated)
		o := r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":1000,"types":[%q]}`, typ)).object(http.StatusOK)
		for _, j := range o["jobs"].([]any) {
			ids = append(ids, j.(map[string]any)["job_id"])
		}
		return o["claim_id"].(string), ids
	}

	// The outcome of one job, with the most jobs that it may have, and with one more.
	claim, ids := hold("a", 1)
	path := fmt.Sprintf("/jobs/%s/complete", ids[0])
	r.post(path, fmt.Sprintf(`{"claim_id":%q,"code":"ok",%s}`, claim, then("one", job.MaxChained+1))).wrong("then")
	r.post(path, fmt.Sprintf(`{"claim_id":%q,"code":"retry",%s}`, claim, then("one", 1))).wrong("then")
	r.post(path, fmt.Sprintf(`{"claim_id":%q,"code":"ok","then":{}}`, claim)).wrong("then")
	r.post(path, fmt.Sprintf(`{"claim_id":%q,"code":"ok","then":[{"client":"jobs"}]}`, claim)).wrong("then[0].client")
	r.post(path, fmt.Sprintf(`{"claim_id":%q,"code":"ok",%s}`, claim, then("one", job.MaxChained))).object(http.StatusOK)
	pending("one", job.MaxChained)

	// Outcomes of many jobs: more than fit into a command.
	claim, ids = hold("b", 30)
	var list []string
	for _, id := range ids {
		list = append(list, fmt.Sprintf(`{"job_id":%q,"code":"failed",%s}`, id, then("many", job.MaxChained)))
	}
	o := r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"outcomes":[%s]}`, claim, strings.Join(list, ","))).object(http.StatusOK)
	testkit.Equal(t, len(o["results"].([]any)), 30, "results")
	pending("many", 30*job.MaxChained)

	// Beside an outcome for all, in lines, with a claim, and in a stream.
	claim, ids = hold("c", 3)
	r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok","except":[{"job_id":%q,"code":"ok",%s}]}`, claim, ids[0], then("except", 2))).object(http.StatusOK)
	pending("except", 2)
	claim, ids = hold("d", 1)
	r.do(http.MethodPost, "/jobs/complete", strings.NewReader(fmt.Sprintf(`{"claim_id":%q,"job_id":%q,"code":"ok",%s}`, claim, ids[0], then("line", 3))),
		"Content-Type", "application/x-ndjson")
	pending("line", 3)
	claim, ids = hold("e", 1)
	r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","types":["none"],"complete":{"claim_id":%q,"outcomes":[{"job_id":%q,"code":"ok",%s}]}}`, claim, ids[0], then("claim", 4)))
	pending("claim", 4)
	claim, ids = hold("f", 1)
	c := r.open()
	c.ok(c.send("complete", fmt.Sprintf(`{"claim_id":%q,"job_id":%q,"code":"ok",%s}`, claim, ids[0], then("stream", 5))))
	pending("stream", 5)
}

// TestHops: an outcome that would continue a chain that is too long is refused, and the job can end without creating
// jobs.
func TestHops(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	r.post("/jobs/create", `{"type":"x"}`).object(http.StatusCreated)
	for range job.MaxHops {
		id, claim := r.claimed("x")
		r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok",%s}`, claim, then("x", 1))).object(http.StatusOK)
	}
	id, claim := r.claimed("x")
	want(t, r.get("/jobs/"+id).object(http.StatusOK), "hops", float64(job.MaxHops))
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok",%s}`, claim, then("x", 1))).refused(http.StatusConflict, "too_many_hops")
	r.post("/jobs/"+id+"/complete", fmt.Sprintf(`{"claim_id":%q,"code":"ok"}`, claim)).object(http.StatusOK)
}

// TestOnComplete: the attribute is in the document, in the forms of creates.
func TestOnComplete(t *testing.T) {
	r := start(t)
	o := r.post("/jobs/create", `{"on_complete":{"type":"b","client":null,"meta":{"k":"v"},"on_complete":{"type":"c","delay_ms":5}}}`).object(http.StatusCreated)
	next := o["on_complete"].(map[string]any)
	want(t, next, "type", "b", "max_attempts", 3.0, "meta", "map[k:v]")
	want(t, next["on_complete"].(map[string]any), "type", "c", "delay_ms", 5.0)
	want(t, r.get("/jobs/"+o["job_id"].(string)).object(http.StatusOK), "on_complete", fmt.Sprint(o["on_complete"]))
	for _, value := range []string{"b", "%7B%22type%22:%22b%22%7D"} {
		added := r.add("/add?on_complete="+value, "x\n").object(http.StatusCreated)
		doc := r.get("/jobs/" + added["first_id"].(string)).object(http.StatusOK)
		want(t, doc["on_complete"].(map[string]any), "type", "b")
	}
	r.add("/add?on_complete=a%20b", "x\n").wrong("on_complete.type")
	r.add("/add?on_complete=%7B%22priority%22:1%7D", "x\n").wrong("on_complete.type")
	r.add("/add?on_complete=%7B", "x\n").refused(http.StatusBadRequest, "bad_request")
	nested := `{"type":"x"}`
	for range 100 {
		nested = `{"type":"x","on_complete":` + nested + `}`
	}
	r.post("/jobs/create", `{"on_complete":`+nested+`}`).refused(http.StatusBadRequest, "bad_request")
	for _, c := range []struct{ body, field string }{
		{`{"type":"x","priority":10}`, "on_complete.priority"}, {`{"type":"x","expires_at":5}`, "on_complete"}, {`{"type":"x","delay_ms":-1}`, "on_complete.delay_ms"},
		{`{"type":"x","client":"jobs"}`, "on_complete.client"}, {`{"type":"x","payload":"y"}`, "on_complete.payload"},
	} {
		r.post("/jobs/create", `{"on_complete":`+c.body+`}`).wrong(c.field)
	}
}
