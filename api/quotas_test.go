package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestQuotas: quotas are set, read, listed and deleted, and creates beyond them are refused, in all forms.
func TestQuotas(t *testing.T) {
	r := start(t)
	set := func(client, body string) reply {
		return r.do(http.MethodPut, "/limits/"+client, strings.NewReader(body), "Content-Type", web.MIMEJSON)
	}
	for _, body := range []string{`{}`, `{"unfinished":0}`, `{"queues":-1}`, `{"unfinished":1000000000000001}`, `{"unfinished":1.5}`} {
		set("acme", body).refused(http.StatusBadRequest, "bad_request")
	}
	set("acme", `{"more":1}`).refused(http.StatusBadRequest, "bad_request")
	set("..", `{"queues":1}`).wrong("client")
	set(strings.Repeat("n", 129), `{"queues":1}`).wrong("client")
	set("keys", `{"queues":1}`).wrong("client")
	r.get("/limits/acme").refused(http.StatusNotFound, "quota_not_found")
	r.delete("/limits/acme").refused(http.StatusNotFound, "quota_not_found")
	made := set("acme", `{"unfinished":3,"queues":2}`).object(http.StatusOK)
	testkit.Equal(t, fmt.Sprintf("%v %v %v %v", made["client"], made["unfinished"], made["queues"], made["use"]), "acme 3 2 map[bytes:0 idempotency_keys:0 queues:0 sessions:0 sweeps:0 unfinished:0]")

	create := func(client, typ string) string { return `{"client":"` + client + `","type":"` + typ + `"}` }
	r.post("/jobs/create", `[`+create("acme", "x")+`,`+create("acme", "y")+`]`).object(http.StatusCreated)
	refused := r.post("/jobs/create", `[`+create("acme", "x")+`,`+create("acme", "y")+`]`)
	refused.refused(http.StatusTooManyRequests, "quota_exceeded")
	testkit.Equal(t, refused.header.Get("Retry-After"), "60")
	testkit.Contains(t, refused.body, "client acme may have 3 unfinished jobs, and has 2; the request would add 2")
	testkit.Contains(t, r.post("/jobs/create", create("acme", "z")).body, "client acme may have 2 queues, and has 2; the request would add 1")
	r.add("/acme/job/x/add", "a\nb\n").refused(http.StatusTooManyRequests, "quota_exceeded")
	r.post("/jobs/create", `{"client":"acme","type":"x","unique_key":"u"}`).object(http.StatusCreated)
	r.post("/jobs/create", create("acme", "x"), "Idempotency-Key", "k").refused(http.StatusTooManyRequests, "quota_exceeded")
	r.post("/jobs/create", create("other", "z")).object(http.StatusCreated)
	c := r.open()
	c.refusal(c.send("create", create("acme", "x")), "quota_exceeded")

	got := r.get("/limits/acme").object(http.StatusOK)
	testkit.Equal(t, fmt.Sprint(got["use"]), "map[bytes:0 idempotency_keys:0 queues:2 sessions:0 sweeps:0 unfinished:3]")
	job := r.post("/jobs/claim", `{"runner_id":"r1","clients":["acme"],"types":["x"]}`).object(http.StatusOK)["job_id"].(string)
	r.post("/jobs/"+job+"/complete", `{"status":"completed"}`).object(http.StatusOK)
	r.post("/jobs/create", create("acme", "x"), "Idempotency-Key", "k").object(http.StatusCreated)
	r.post("/jobs/create", create("acme", "x")).refused(http.StatusTooManyRequests, "quota_exceeded")
	r.post("/jobs/"+job+"/redrive", ``).object(http.StatusOK) // not refused
	testkit.Equal(t, fmt.Sprint(r.get("/limits/acme").object(http.StatusOK)["use"]), "map[bytes:0 idempotency_keys:1 queues:2 sessions:0 sweeps:0 unfinished:4]")

	set("b", `{"queues":1}`).object(http.StatusOK)
	list := r.get("/limits?limit=1").object(http.StatusOK)
	testkit.Equal(t, fmt.Sprintf("%v %d", list["next"], len(list["limits"].([]any))), "acme 1")
	list = r.get("/limits?after=acme").object(http.StatusOK)
	testkit.Equal(t, fmt.Sprintf("%v %v", list["next"], list["limits"].([]any)[0].(map[string]any)["client"]), "<nil> b")
	testkit.Equal(t, r.delete("/limits/acme").status, http.StatusNoContent)
	r.post("/jobs/create", create("acme", "z")).object(http.StatusCreated)

	admin := r.newKey("", "boss", "admin")
	operator, producer := r.newKey(admin, "o", "operator"), r.newKey(admin, "p", "producer")
	r.get("/limits/b", as(operator)...).object(http.StatusOK)
	r.get("/limits/b", as(producer)...).refused(http.StatusForbidden, "role_missing")
	r.do(http.MethodPut, "/limits/b", strings.NewReader(`{"queues":5}`), append(as(operator), "Content-Type", web.MIMEJSON)...).refused(http.StatusForbidden, "role_missing")
	changed := r.do(http.MethodPut, "/limits/b", strings.NewReader(`{"queues":5}`), append(as(admin), "Content-Type", web.MIMEJSON)...).object(http.StatusOK)
	testkit.Equal(t, changed["by"], any("boss"))

	r.do(http.MethodPut, "/limits/acme", strings.NewReader(`{"queues":7}`), append(as(admin), "Content-Type", web.MIMEJSON)...).object(http.StatusOK)
	of := func(name, scope string) string {
		return r.post("/keys", `{"name":"`+name+`","roles":["operator"],`+scope+`}`, as(admin)...).object(http.StatusCreated)["key"].(string)
	}
	own, typed := of("own", `"clients":["b"]`), of("typed", `"clients":["b"],"types":["x"]`)
	r.get("/limits/b", as(own)...).object(http.StatusOK)
	r.get("/limits/acme", as(own)...).refused(http.StatusForbidden, "out_of_scope")
	testkit.Equal(t, len(r.get("/limits", as(own)...).object(http.StatusOK)["limits"].([]any)), 1, "quotas of the key's clients")
	r.get("/limits/b", as(typed)...).refused(http.StatusNotFound, "quota_not_found") // it counts jobs of all types
	testkit.Equal(t, len(r.get("/limits", as(typed)...).object(http.StatusOK)["limits"].([]any)), 0)

	audit := r.get("/audit", as(admin)...).body
	testkit.Contains(t, audit, `"clients":"b"`, `"runner_prefix":"typed:"`, `"types":"x"`, `"roles":"operator"`, `"queues":"7"`)
	testkit.Lacks(t, audit, "sha256", "dbk_")
}
