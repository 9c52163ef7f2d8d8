package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// tenants are two clients whose keys are for their own jobs.
type tenants struct {
	*rig
	admin, acme, other string
	// Things of other.
	job, batch, claim, session string
}

// newTenants gives each client a key with the roles of an operator, a producer and a worker, and other a job in each state of use.
func newTenants(t *testing.T) *tenants {
	s := &tenants{rig: start(t)}
	s.admin = s.newKey("", "boss", "admin")
	key := func(name, limits string) string {
		return s.post("/keys", `{"name":"`+name+`","roles":["operator","producer","worker"],`+limits+`}`, as(s.admin)...).object(http.StatusCreated)["key"].(string)
	}
	s.acme, s.other = key("acme", `"clients":["acme"]`), key("other", `"clients":["other","third"]`)
	s.post("/jobs/create", `{"client":"other","type":"resize"}`, as(s.other)...).object(http.StatusCreated)
	claimed := s.post("/jobs/claim", `{"runner_id":"other:1","max":1}`, as(s.other)...).object(http.StatusOK)
	s.claim, s.job = claimed["claim_id"].(string), claimed["jobs"].([]any)[0].(map[string]any)["job_id"].(string)
	s.batch = s.post("/jobs/create", `[{"client":"other","type":"resize"},{"client":"third","type":"resize"}]`, as(s.other)...).object(http.StatusCreated)["batch_id"].(string)
	s.session = s.post("/sessions", `{"runner_id":"other:1"}`, as(s.other)...).object(http.StatusCreated)["session_id"].(string)
	return s
}

// TestTenantsIDs: an id of something that belongs to another client is answered as an id of nothing, byte for byte.
func TestTenantsIDs(t *testing.T) {
	s := newTenants(t)
	unknown := job.NewID(1670273606123, 1<<30, 0).String()
	for _, test := range []struct{ method, path, body string }{
		{"GET", "/jobs/{job}", ""}, {"GET", "/jobs/{job}/output", ""}, {"GET", "/jobs/{job}/log", ""}, {"POST", "/jobs/{job}/log", "text"},
		{"POST", "/jobs/{job}/cancel", ""}, {"POST", "/jobs/{job}/redrive", ""}, {"POST", "/jobs/{job}/run", ""}, {"DELETE", "/jobs/{job}", ""}, {"PATCH", "/jobs/{job}", `{"priority":1}`},
		{"POST", "/jobs/{job}/tickle", `{}`}, {"POST", "/jobs/{job}/complete", `{"code":"ok"}`}, {"POST", "/jobs/{job}/release", `{}`},
		{"POST", "/jobs/tickle", `{"job_ids":["{job}"]}`}, {"POST", "/jobs/tickle", `{"claim_id":"{claim}"}`}, {"POST", "/jobs/complete", `{"outcomes":[{"job_id":"{job}","code":"ok"}]}`},
		{"POST", "/jobs/complete", `{"claim_id":"{claim}","code":"ok"}`}, {"GET", "/claims/{claim}", ""},
		{"GET", "/batches/{batch}", ""}, {"GET", "/batches/{batch}/metadata", ""}, {"GET", "/batches/{batch}/results", ""}, {"POST", "/batches/{batch}/close", ""}, {"POST", "/batches/{batch}/resume", ""},
		{"POST", "/batches/{batch}/cancel", ""}, {"POST", "/batches/{batch}/redrive", ""}, {"DELETE", "/batches/{batch}", ""}, {"POST", "/batches/{batch}/jobs", `[{"client":"acme","type":"x"}]`},
		{"GET", "/sessions/{session}", ""}, {"DELETE", "/sessions/{session}", ""},
		{"GET", "/jobs?batch_id={batch}", ""}, {"GET", "/jobs?claim_id={claim}", ""},
	} {
		ask := func(of map[string]string) reply {
			path, body := test.path, test.body
			for name, id := range of {
				path, body = strings.ReplaceAll(path, "{"+name+"}", id), strings.ReplaceAll(body, "{"+name+"}", id)
			}
			headers := as(s.acme)
			if test.body == "text" {
				headers = append(headers, "Content-Type", "text/plain", "Daybook-Runner", "acme:1")
			}
			return s.do(test.method, path, bytes.NewReader([]byte(body)), append([]string{"Content-Type", "application/json"}, headers...)...)
		}
		theirs := ask(map[string]string{"job": s.job, "batch": s.batch, "claim": s.claim, "session": s.session})
		none := ask(map[string]string{"job": unknown, "batch": unknown, "claim": unknown, "session": unknown})
		same := theirs.status == none.status
		for _, id := range []string{s.job, s.batch, s.claim, s.session} {
			theirs.body = strings.ReplaceAll(theirs.body, id, unknown)
		}
		testkit.Holds(t, same && theirs.body == none.body, test, theirs, none)
	}
	doc := s.get("/jobs/"+s.job, as(s.other)...).object(http.StatusOK)
	testkit.Equal(t, doc["status"], any("active"))
	testkit.Equal(t, doc["created_by"], any("other"))
	testkit.Equal(t, s.get("/batches/"+s.batch, as(s.other)...).object(http.StatusOK)["count"], any(json.Number("2")))
}

// TestTenantsLists: lists, counts and their places have nothing of other clients.
func TestTenantsLists(t *testing.T) {
	s := newTenants(t)
	mine := s.post("/jobs/create", `{"client":"acme","type":"resize"}`, as(s.acme)...).object(http.StatusCreated)["job_id"].(string)
	s.post("/runners/other:1", `{"instance":"i"}`, as(s.other)...).object(http.StatusOK)
	testkit.Equal(t, s.do(http.MethodPut, "/handlers/resize?client=other", strings.NewReader(`{"kind":"script","lang":"node","source":"1"}`), append(as(s.other), "Content-Type", "application/json")...).status, http.StatusCreated)
	for range 30 {
		s.post("/jobs/create", `{"client":"other","type":"resize"}`, as(s.other)...).object(http.StatusCreated)
	}
	for _, path := range []string{
		"/jobs", "/jobs?limit=1", "/jobs?type=resize", "/jobs?client=other", "/jobs?status=pending", "/jobs?runner_id=other:1", "/batches", "/batches?client=other", "/batches?limit=1",
		"/queues", "/queues?client=other", "/queues?waiting=true", "/queues?waiting=true&client=other", "/runners", "/sweeps", "/handlers", "/filesets",
	} {
		a := s.get(path, as(s.acme)...)
		testkit.Equal(t, a.status, http.StatusOK, path, a.body)
		for _, secret := range []string{"other", "third", s.job, s.batch, s.claim, s.session} {
			testkit.Holds(t, !strings.Contains(a.body, secret), path, "shows", secret, a.body)
		}
	}
	testkit.Holds(t, strings.Contains(s.get("/jobs", as(s.acme)...).body, mine))
	testkit.Holds(t, strings.Contains(s.get("/queues", as(s.acme)...).body, `"acme"`))
	testkit.Equal(t, s.get("/queues?waiting=true", as(s.acme)...).object(http.StatusOK)["types"].([]any)[0].(map[string]any)["waiting"], any(json.Number("1")))
	testkit.Equal(t, s.get("/queues?waiting=true", as(s.other)...).object(http.StatusOK)["types"].([]any)[0].(map[string]any)["waiting"], any(json.Number("32")))
}

// TestTenantsNames: a request that names another client, a type or a runner that the key is not for is refused, and changes nothing.
func TestTenantsNames(t *testing.T) {
	s := newTenants(t)
	for _, test := range []struct{ method, path, body string }{
		{"POST", "/jobs/create", `{"client":"other","type":"x"}`}, {"POST", "/jobs/create", `[{"client":"acme","type":"x"},{"client":"other","type":"x"}]`}, {"POST", "/jobs/create", `{"type":"x"}`},
		{"POST", "/add?client=other&jobtype=x", `a`}, {"POST", "/other/job/x/add", `a`}, {"POST", "/jobs/create", `{"client":"acme","type":"x","on_complete":{"client":"other","type":"y"}}`},
		{"POST", "/jobs/claim", `{"runner_id":"acme:1","clients":["other"]}`}, {"POST", "/jobs/claim", `{"runner_id":"acme:1","clients":["acme","other"]}`},
		{"POST", "/jobs/claim", `{"runner_id":"other:1"}`}, {"POST", "/jobs/claim", `{"runner_id":"acme"}`}, {"POST", "/jobs/tickle", `{"runner_id":"other:1"}`}, {"POST", "/sessions", `{"runner_id":"other:1"}`},
		{"POST", "/runners/other:1", `{"instance":"i"}`}, {"GET", "/runners/other:1", ""}, {"DELETE", "/runners/other:1", ""},
		{"PUT", "/blobs?client=other", "x"}, {"PUT", "/blobs", "x"}, {"GET", "/blobs?client=other", ""}, {"GET", "/blobs", ""}, {"POST", "/uploads?client=other", ""}, {"POST", "/uploads", ""},
		{"PUT", "/handlers/x", `{"kind":"script","lang":"node","source":"1"}`}, {"PUT", "/handlers/x?client=other", `{"kind":"script","lang":"node","source":"1"}`}, {"DELETE", "/handlers/x", ""}, {"PUT", "/filesets/f?client=other", "x"}, {"DELETE", "/filesets/f", ""},
		{"GET", "/handlers/x?client=other", ""}, {"GET", "/handlers/x/history?client=other", ""}, {"GET", "/other/handler/x/get", ""}, {"GET", "/other/handler/get/x/get", ""},
		{"GET", "/filesets/f?client=other", ""}, {"GET", "/filesets/f/history?client=other", ""}, {"GET", "/blobs/" + addressOf("x") + "?client=other", ""}, {"GET", "/blob/" + addressOf("x") + "?client=other", ""},
		{"POST", "/stop", ""}, {"POST", "/start", ""}, {"GET", "/stats", ""}, {"GET", "/metrics", ""},
	} {
		headers := as(s.acme)
		if strings.HasPrefix(test.path, "/uploads") {
			headers = append(headers, "Tus-Resumable", "1.0.0", "Upload-Length", "1")
		}
		if strings.ContainsAny(test.body, "{[") {
			headers = append(headers, "Content-Type", "application/json")
		}
		a := s.do(test.method, test.path, strings.NewReader(test.body), headers...)
		testkit.Holds(t, a.status == http.StatusForbidden && strings.Contains(a.body, web.CodeOutOfScope), test, a.status, a.body)
	}
	s.put("/filesets/f?client=acme", tarOf(t, "a", "A"), as(s.acme)...).wantStatus(http.StatusCreated)
	s.put("/blobs?client=acme", "x", as(s.acme)...).wantStatus(http.StatusCreated)
	s.get("/blobs/"+addressOf("x")+"?client=acme", as(s.acme)...).wantStatus(http.StatusOK)
	stored := s.do(http.MethodPut, "/blobs?client=other", strings.NewReader("secret"), as(s.other)...)
	testkit.Equal(t, stored.status, http.StatusCreated, stored.body)
	s.get(stored.header.Get("Location"), as(s.acme)...).refused(http.StatusForbidden, web.CodeOutOfScope)
	s.get(strings.TrimSuffix(stored.header.Get("Location"), "?client=other"), as(s.acme)...).refused(http.StatusNotFound, "blob_not_found")
	testkit.Equal(t, s.get(stored.header.Get("Location"), as(s.other)...).body, "secret")
	for _, path := range []string{"/queues/other/resize/pause", "/queues/other/resize/cancel", "/queues/none/resize/pause"} {
		s.post(path, ``, as(s.acme)...).refused(http.StatusNotFound, "queue_not_found")
	}
	s.get("/queues/other/resize", as(s.acme)...).refused(http.StatusNotFound, "queue_not_found")
	s.post("/jobs/complete", `{"outcomes":[{"job_id":"`+s.job+`","code":"ok"}],"runner_id":"other:1"}`, as(s.acme)...).refused(http.StatusForbidden, web.CodeOutOfScope)
	testkit.Equal(t, s.get("/jobs/"+s.job, as(s.other)...).object(http.StatusOK)["status"], any("active"))
	who := s.get("/whoami", as(s.acme)...).object(http.StatusOK)
	testkit.Equal(t, who["runner_prefix"], any("acme:"))
}

// TestTenantsKeysAndSessions: idempotency keys and sessions of others give no answers.
func TestTenantsKeysAndSessions(t *testing.T) {
	s := newTenants(t)
	body := `{"outcomes":[{"job_id":"` + s.job + `","code":"ok"}]}`
	done := s.post("/jobs/complete", body, append(as(s.other), "Idempotency-Key", "k")...)
	testkit.Equal(t, done.status, http.StatusOK, done.body)
	a := s.post("/jobs/complete", body, append(as(s.acme), "Idempotency-Key", "k")...)
	testkit.Holds(t, a.header.Get("Idempotency-Replayed") == "" && strings.Contains(a.body, "job_not_found"), a.body)
	numbered := []string{"Daybook-Session", s.session, "Daybook-Session-Number", "7"}
	for _, test := range [][2]string{{"/jobs/create", `{"client":"acme","type":"x"}`}, {"/jobs/complete", body}, {"/jobs/claim", `{"runner_id":"acme:1"}`}} {
		s.post(test[0], test[1], append(as(s.acme), numbered...)...).refused(http.StatusNotFound, "session_not_found")
	}
	s.post("/jobs/create", `{"client":"other","type":"x"}`, append(as(s.other), numbered...)...).object(http.StatusCreated)
}

// TestTenantsClaims: a claim that names nobody gets the jobs of its key's clients and types only, over HTTP and in a stream.
func TestTenantsClaims(t *testing.T) {
	s := newTenants(t)
	s.post("/jobs/create", `[{"client":"acme","type":"a"},{"client":"acme","type":"b"}]`, as(s.acme)...).object(http.StatusCreated)
	typed := s.post("/keys", `{"name":"typed","roles":["worker"],"clients":["acme"],"types":["b"],"runner_prefix":"t."}`, as(s.admin)...).object(http.StatusCreated)["key"].(string)
	got := s.post("/jobs/claim", `{"runner_id":"t.1","max":10}`, as(typed)...).object(http.StatusOK)["jobs"].([]any)
	testkit.Holds(t, len(got) == 1 && got[0].(map[string]any)["type"] == "b", got)
	stream := s.open(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Authorization": {"Bearer " + s.acme}} })
	stream.refusal(stream.send("hello", `{"runner_id":"other:1"}`), web.CodeOutOfScope)
	hello := stream.ok(stream.send("hello", `{"runner_id":"acme:1","claims":["`+s.claim+`"]}`))
	testkit.Equal(t, len(hello["claims"].([]any)), 0)
	stream.refusal(stream.send("subscribe", `{"credit":1,"clients":["other"]}`), web.CodeOutOfScope)
	stream.refusal(stream.send("create", `{"client":"other","type":"x"}`), web.CodeOutOfScope)
	stream.refusal(stream.send("complete", `{"job_id":"`+s.job+`","code":"ok"}`), "job_not_found")
	_, ids := stream.pushed(stream.send("subscribe", `{"credit":5}`))
	testkit.Equal(t, len(ids), 1)
	testkit.Equal(t, s.get("/jobs/"+ids[0], as(s.acme)...).object(http.StatusOK)["type"], any("a"))
}

// TestConcealedPayloads: readers see no payloads, or payloads without some fields, wherever jobs are shown.
func TestConcealedPayloads(t *testing.T) {
	s := newTenants(t)
	id := s.post("/jobs/create", `{"client":"acme","type":"pay","payload":{"amount":5,"card":{"number":"4111"},"list":[{"card":"4111"}]}}`, as(s.acme)...).object(http.StatusCreated)["job_id"].(string)
	text := s.post("/jobs/create", `{"client":"acme","type":"pay","payload":"4111 as a text"}`, as(s.acme)...).object(http.StatusCreated)["job_id"].(string)
	s.post("/jobs/claim", `{"runner_id":"acme:1","max":2}`, as(s.acme)...).object(http.StatusOK)
	s.post("/jobs/"+id+"/complete", `{"code":"ok","output":{"card":"4111","ok":true}}`, as(s.acme)...).object(http.StatusOK)
	s.post("/jobs/"+text+"/complete", `{"code":"failed","error":"no 4111"}`, as(s.acme)...).object(http.StatusOK)
	key := func(name, limits string) string {
		return s.post("/keys", `{"name":"`+name+`","roles":["reader"],`+limits+`}`, as(s.admin)...).object(http.StatusCreated)["key"].(string)
	}
	redacts, hides := key("redacts", `"redact":["card","pin"],"clients":["acme"]`), key("hides", `"hide_payloads":true`)
	for _, k := range []string{redacts, hides} {
		for _, path := range []string{"/jobs", "/jobs/" + id} {
			a := s.get(path, as(k)...)
			testkit.Holds(t, a.status == http.StatusOK && !strings.Contains(a.body, `"4111`), a.body)
		}
		for _, path := range []string{"/jobs/" + id + "/output", "/jobs/" + id + "/log"} {
			s.get(path, as(k)...).refused(http.StatusForbidden, web.CodeOutOfScope)
		}
	}
	doc := s.get("/jobs/"+id, as(redacts)...).object(http.StatusOK)
	testkit.Equal(t, string(testkit.Must(json.Marshal(doc["payload"]))(t)), `{"amount":5,"card":"(redacted)","list":[{"card":"(redacted)"}]}`)
	testkit.Equal(t, string(testkit.Must(json.Marshal(doc["output"]))(t)), `{"card":"(redacted)","ok":true}`)
	testkit.Holds(t, !strings.Contains(s.get("/jobs", as(hides)...).body, "4111"))
	s.post("/keys", `{"name":"x","roles":["reader","worker"],"hide_payloads":true}`, as(s.admin)...).refused(http.StatusBadRequest, "bad_request")
	s.post("/keys", `{"name":"x","roles":["metrics"],"clients":["acme"]}`, as(s.admin)...).refused(http.StatusBadRequest, "bad_request")
}

// TestTenantsStreams: tickles and completions of another client do not make a stream forget the claim that they name.
func TestTenantsStreams(t *testing.T) {
	s := newTenants(t)
	id := s.post("/jobs/create", `{"client":"other","type":"sent"}`, as(s.other)...).object(http.StatusCreated)["job_id"].(string)
	c := s.open(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Authorization": {"Bearer " + s.other}} })
	c.ok(c.send("hello", `{"runner_id":"other:2"}`))
	c.pushed(c.send("subscribe", `{"credit":1,"types":["sent"]}`))
	claim := s.get("/jobs/"+id, as(s.other)...).object(http.StatusOK)["claim_id"].(string)
	for path, body := range map[string]string{
		"/jobs/tickle": `{"claim_id":"` + claim + `"}`, "/jobs/complete": `{"claim_id":"` + claim + `","code":"ok"}`,
	} {
		answer := s.post(path, body, as(s.acme)...)
		testkit.Holds(t, answer.status >= 400, path, answer)
	}
	s.post("/jobs/complete", `{"claim_id":"`+claim+`","outcomes":[{"job_id":"`+id+`","code":"ok"}]}`, as(s.acme)...)
	c.conn.CloseNow()
	testkit.Eventually(t, "the job goes back", func() bool { return s.get("/jobs/"+id, as(s.other)...).object(http.StatusOK)["status"] == "pending" })
}

// TestTenantsBatchNames: a list of names does not begin after a batch of another client, which would tell its name.
func TestTenantsBatchNames(t *testing.T) {
	s := newTenants(t)
	named := s.post("/jobs/create", `{"batch":{"name":"p-m"},"jobs":[{"client":"other","type":"x"}]}`, as(s.other)...).object(http.StatusCreated)["batch_id"].(string)
	path := "/batches?name_prefix=p-&after="
	s.get(path+named, as(s.other)...).object(http.StatusOK)
	theirs, none := s.get(path+named, as(s.acme)...), s.get(path+job.NewID(1670273606123, 1<<30, 0).String(), as(s.acme)...)
	testkit.Holds(t, theirs.status == http.StatusNotFound && theirs.status == none.status && theirs.body == none.body, theirs, none)
}

// TestSessionsOfANameThatIsUsedAgain: a key has no sessions of a revoked one with its name that was for another client.
func TestSessionsOfANameThatIsUsedAgain(t *testing.T) {
	s := newTenants(t)
	key := func(client string) string {
		return s.post("/keys", `{"name":"w","roles":["worker"],"clients":["`+client+`"]}`, as(s.admin)...).object(http.StatusCreated)["key"].(string)
	}
	first := key("acme")
	session := s.post("/sessions", `{}`, as(first)...).object(http.StatusCreated)["session_id"].(string)
	testkit.Equal(t, s.do(http.MethodDelete, "/keys/w", nil, as(s.admin)...).status, http.StatusNoContent)
	second := key("other")
	for _, a := range []reply{s.get("/sessions/"+session, as(second)...), s.do(http.MethodDelete, "/sessions/"+session, nil, as(second)...)} {
		a.refused(http.StatusNotFound, "session_not_found")
	}
}
