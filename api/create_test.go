package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func TestCreate(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	t.Run("defaults", func(t *testing.T) {
		a := r.post("/jobs/create", `{}`)
		o := a.object(http.StatusCreated)
		want(t, o, "client", "default", "type", "default", "status", "pending", "priority", 4, "payload", nil, "payload_b64", nil, "max_attempts", 3,
			"lease_ms", 300000, "run_attempts", 0, "runner_id", nil, "claim_id", nil, "run_at", nil, "completed_at", nil, "deadline_at", nil)
		testkit.Equal(t, a.header.Get("Location"), "/jobs/"+o["job_id"].(string), "Location")
		testkit.Holds(t, a.header.Get("Daybook-Seq") != "", "no Daybook-Seq")
	})
	// The answer is made before the job is applied. It must be equal to the document that a GET returns.
	for name, body := range map[string]string{
		"nothing":        `{}`,
		"null payload":   `{"payload":null,"client":null,"priority":null,"backoff":null}`,
		"text":           `{"payload":"hello \"world\" \u00e9 \ud83d\ude00"}`,
		"empty text":     `{"payload":""}`,
		"text of lines":  `{"payload":"one\ntwo\r\n"}`,
		"number":         `{"payload":1.50}`,
		"false":          `{"payload":false}`,
		"object as sent": "{\"payload\":{\"b\" : [1, 2.0e3],\n \"a\":null}}",
		"bytes":          `{"payload_b64":"AP+A"}`,
		"no bytes":       `{"payload_b64":""}`,
		"bytes of lines": `{"payload_b64":"CgoK"}`,
		"wasi":           `{"binary_addr":"sha256-a b%=,c"}`,
		"wasi and input": `{"binary_addr":"one","input_addr":"two"}`,
		"wasi, null":     `{"binary_addr":"one","input_addr":null}`,
		"everything":     `{"client":"a.b_c:d-E","type":"9","run_at":99999999999999,"priority":9,"max_attempts":1000,"backoff":{"initial_ms":0,"factor_milli":1000,"max_ms":0},"lease_ms":86400000,"retention_ms":0,"payload":"x"}`,
		"past run_at":    `{"run_at":1}`,
		"run_at 0":       `{"run_at":0}`,
		"delay 0":        `{"delay_ms":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := r.post("/jobs/create", body)
			testkit.Equal(t, r.get("/jobs/"+a.object(http.StatusCreated)["job_id"].(string)).body, a.body, "created")
		})
	}
	t.Run("kept as sent", func(t *testing.T) {
		const value = "{\"b\" : [1, 2.0e3],\n \"a\":null}"
		testkit.Contains(t, r.post("/jobs/create", `{"payload":`+value+`}`).body, `"payload":`+value+`,`)
	})
	t.Run("deferred", func(t *testing.T) {
		o := r.post("/jobs/create", `{"delay_ms":3600000}`).object(http.StatusCreated)
		want(t, o, "status", "deferred")
		runAt, err := o["run_at"].(json.Number).Int64()
		created, err2 := o["created_at"].(json.Number).Int64()
		testkit.Holds(t, err == nil && err2 == nil && runAt-created <= 3600000 && runAt-created >= 3500000, "run_at", runAt, "created", created)
	})
}

func TestCreateRefusals(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	post := func(t *testing.T, body string) reply { t.Helper(); return r.post("/jobs/create", body) }
	for _, c := range []struct{ name, body, field string }{
		{"empty", ``, ""},
		{"not an object", `"x"`, ""},
		{"null", `null`, ""},
		{"cut off", `{"client":"a"`, ""},
		{"trailing text", `{} x`, ""},
		{"second object", `{}{}`, ""},
		{"unknown field", `{"colour":1}`, "colour"},
		{"unknown field inside", `{"backoff":{"initial":1}}`, "backoff.initial"},
		{"wrong case", `{"Client":"a"}`, "Client"},
		{"repeated", `{"client":"a","client":"a"}`, "client"},
		{"repeated in a payload", `{"payload":{"x":1,"x":2}}`, "payload.x"},
		{"not UTF-8", "{\"client\":\"\xff\"}", "client"},
		{"payload not UTF-8", "{\"payload\":\"\xff\"}", "payload"},
		{"half a surrogate", `{"payload":"\ud800"}`, "payload"},
		{"client of the wrong type", `{"client":5}`, "client"},
		{"priority of the wrong type", `{"priority":"5"}`, "priority"},
		{"fraction", `{"priority":1.5}`, "priority"},
		{"exponent", `{"priority":1e0}`, "priority"},
		{"beyond 64 bits", `{"run_at":99999999999999999999999}`, "run_at"},
		{"list for a number", `{"lease_ms":[1]}`, "lease_ms"},
		{"backoff of the wrong type", `{"backoff":7}`, "backoff"},
		{"client empty", `{"client":""}`, "client"},
		{"client dots", `{"client":".."}`, "client"},
		{"client slash", `{"client":"a/b"}`, "client"},
		{"client space", `{"client":"a b"}`, "client"},
		{"client long", `{"client":"` + repeat('a', 129) + `"}`, "client"},
		{"type long", `{"type":"` + repeat('a', 129) + `"}`, "type"},
		{"type dot", `{"type":"."}`, "type"},
		{"priority below", `{"priority":-1}`, "priority"},
		{"priority above", `{"priority":10}`, "priority"},
		{"priority absurd", `{"priority":9223372036854775807}`, "priority"},
		{"max_attempts 0", `{"max_attempts":0}`, "max_attempts"},
		{"max_attempts above", `{"max_attempts":1001}`, "max_attempts"},
		{"max_attempts absurd", `{"max_attempts":4294967297}`, "max_attempts"},
		{"lease below", `{"lease_ms":999}`, "lease_ms"},
		{"lease above", `{"lease_ms":86400001}`, "lease_ms"},
		{"retention below", `{"retention_ms":-1}`, "retention_ms"},
		{"retention above", fmt.Sprintf(`{"retention_ms":%d}`, job.MaxDelayMs+1), "retention_ms"},
		{"run_at below", `{"run_at":-1}`, "run_at"},
		{"run_at above", fmt.Sprintf(`{"run_at":%d}`, job.MaxTimeMs+1), "run_at"},
		{"delay below", `{"delay_ms":-1}`, "delay_ms"},
		{"delay above", fmt.Sprintf(`{"delay_ms":%d}`, job.MaxDelayMs+1), "delay_ms"},
		{"delay and run_at", `{"delay_ms":1,"run_at":1}`, "delay_ms"},
		{"backoff initial", `{"backoff":{"initial_ms":-1}}`, "backoff.initial_ms"},
		{"backoff factor below", `{"backoff":{"factor_milli":999}}`, "backoff.factor_milli"},
		{"backoff factor above", `{"backoff":{"factor_milli":100001}}`, "backoff.factor_milli"},
		{"backoff max", fmt.Sprintf(`{"backoff":{"max_ms":%d}}`, job.MaxDelayMs+1), "backoff.max_ms"},
		{"two payloads", `{"payload":"a","payload_b64":"YQ=="}`, "payload"},
		{"payload and binary", `{"payload":"a","binary_addr":"b"}`, "payload"},
		{"input alone", `{"input_addr":"a"}`, "input_addr"},
		{"binary empty", `{"binary_addr":""}`, "binary_addr"},
		{"binary long", `{"binary_addr":"` + repeat('a', 4097) + `"}`, "binary_addr"},
		{"input empty", `{"binary_addr":"a","input_addr":""}`, "input_addr"},
		{"input long", `{"binary_addr":"a","input_addr":"` + repeat('a', 4097) + `"}`, "input_addr"},
		{"base64 wrong", `{"payload_b64":"a!"}`, "payload_b64"},
		{"base64 without padding", `{"payload_b64":"YQ"}`, "payload_b64"},
		{"base64 of the wrong type", `{"payload_b64":5}`, "payload_b64"},
	} {
		t.Run(c.name, func(t *testing.T) { post(t, c.body).wrong(c.field) })
	}
	t.Run("reserved clients", func(t *testing.T) {
		reserved := map[string]bool{}
		for _, route := range Routes() {
			if name, _, _ := strings.Cut(route.Path[1:], "/"); name != "" && name[0] != ':' {
				reserved[name] = true
			}
		}
		testkit.Equal(t, len(reserved), 37, "reserved")
		for _, name := range web.Coming {
			reserved[name] = true
		}
		for name := range reserved {
			r.post("/jobs/create", `{"client":"`+name+`"}`).wrong("client")
			if a := r.add("/"+name+"/job/x/add", "x\n"); name == "runners" {
				a.refused(http.StatusNotFound, "route_not_found") // the router takes it for a runner id with slashes
			} else {
				a.wrong("client")
			}
			r.add("/add?client="+name, "x\n").wrong("client")
		}
	})
	t.Run("at the limits", func(t *testing.T) {
		for _, body := range []string{
			`{"client":"` + repeat('a', 128) + `","type":"` + repeat('b', 128) + `"}`,
			`{"priority":0}`, `{"priority":9}`, `{"max_attempts":1}`, `{"max_attempts":1000}`, `{"lease_ms":1000}`, `{"lease_ms":86400000}`,
			fmt.Sprintf(`{"retention_ms":%d}`, job.MaxDelayMs), fmt.Sprintf(`{"run_at":%d}`, job.MaxTimeMs), fmt.Sprintf(`{"delay_ms":%d}`, job.MaxDelayMs),
			fmt.Sprintf(`{"backoff":{"initial_ms":%d,"factor_milli":100000,"max_ms":%d}}`, job.MaxDelayMs, job.MaxDelayMs),
			`{"binary_addr":"` + repeat('a', 4096) + `","input_addr":"` + repeat('%', 4096) + `"}`,
		} {
			post(t, body).object(http.StatusCreated)
		}
	})
	t.Run("payload", func(t *testing.T) {
		post(t, `{"payload":"`+repeat('a', job.MaxPayloadBytes)+`"}`).object(http.StatusCreated)
		o := post(t, `{"payload":"`+repeat('a', job.MaxPayloadBytes+1)+`"}`).refused(http.StatusRequestEntityTooLarge, "payload_too_large")
		want(t, o, "field", "payload")
	})
}

func TestAdd(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	t.Run("verbatim", func(t *testing.T) {
		o := r.add("/acme/job/resize/add?priority=7&max_attempts=2&backoff_initial_ms=5&backoff_factor_milli=1500&backoff_max_ms=6&lease_ms=2000&retention_ms=7", "one\r\n\n# two \n\n\xff\nlast").
			object(http.StatusCreated)
		want(t, o, "count", 4)
		list := o["job_ids"].([]any)
		want(t, o, "first_id", list[0], "last_id", list[3], "batch_id", list[0])
		for i, text := range []any{"one\r", "# two ", nil, "last"} {
			j := r.get("/jobs/" + list[i].(string)).object(http.StatusOK)
			want(t, j, "payload", text, "client", "acme", "type", "resize", "priority", 7, "max_attempts", 2, "lease_ms", 2000, "batch_id", list[0])
			if text == nil {
				want(t, j, "payload_b64", "/w==")
			}
		}
	})
	t.Run("by query", func(t *testing.T) {
		o := r.add("/add?jobtype=b&client=a", "x").object(http.StatusCreated)
		want(t, r.get("/jobs/"+o["first_id"].(string)).object(http.StatusOK), "client", "a", "type", "b")
		o = r.add("/add", "x").object(http.StatusCreated)
		want(t, r.get("/jobs/"+o["first_id"].(string)).object(http.StatusOK), "client", "default", "type", "default")
	})
	t.Run("deferred", func(t *testing.T) {
		o := r.add("/add?delay_ms=3600000", "x").object(http.StatusCreated)
		want(t, r.get("/jobs/"+o["first_id"].(string)).object(http.StatusOK), "status", "deferred")
	})
	t.Run("nothing", func(t *testing.T) {
		for _, body := range []string{"", "\n", "\n\n\n"} {
			o := r.add("/add", body).object(http.StatusCreated)
			want(t, o, "count", 0, "batch_id", nil, "first_id", nil, "last_id", nil, "job_ids", "[]")
		}
		a := r.add("/add", "", "Accept", "text/plain")
		testkit.Holds(t, a.status == http.StatusCreated && a.body == "", a.status, a.body)
	})
	t.Run("ids", func(t *testing.T) {
		o := r.add("/add", strings.Repeat("x\n", 1000)).object(http.StatusCreated)
		all := o["job_ids"].([]any)
		testkit.Holds(t, len(all) == 1000 && all[999] == o["last_id"], len(all), "ids")
		o = r.add("/add", strings.Repeat("x\n", 1001)).object(http.StatusCreated)
		_, there := o["job_ids"]
		testkit.Holds(t, !there && fmt.Sprint(o["count"]) == "1001", o["count"])
		a := r.add("/add", strings.Repeat("x\n", 2345), "Accept", "text/plain")
		list := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
		testkit.MustHold(t, a.status == http.StatusCreated && len(list) == 2345 &&
			a.header.Get("Content-Type") == "text/plain", a.status, len(list), "ids", a.header.Get("Content-Type"))
		for i, text := range list {
			testkit.MustEqual(t, testkit.Must(job.ParseID(text))(t).Line(), i, "id", text)
		}
	})
	t.Run("most lines", func(t *testing.T) {
		o := r.add("/add?jobtype=most", strings.Repeat("x\n", job.MaxLines)).object(http.StatusCreated)
		want(t, o, "count", job.MaxLines)
		want(t, r.get("/jobs/"+o["last_id"].(string)).object(http.StatusOK), "payload", "x")
	})
	t.Run("payload", func(t *testing.T) {
		r.add("/add", "a\n"+repeat('x', job.MaxPayloadBytes)+"\n").object(http.StatusCreated)
		r.add("/add", "a\n"+repeat('x', job.MaxPayloadBytes+1)+"\n").refused(http.StatusRequestEntityTooLarge, "payload_too_large")
	})
	for _, c := range []struct{ name, path, field string }{
		{"unknown", "/add?colour=red", "colour"},
		{"twice", "/add?priority=1&priority=1", "priority"},
		{"empty number", "/add?priority=", "priority"},
		{"plus sign", "/add?priority=%2B1", "priority"},
		{"leading zero", "/add?priority=01", "priority"},
		{"beyond 64 bits", "/add?run_at=99999999999999999999", "run_at"},
		{"above", "/add?priority=10", "priority"},
		{"backoff", "/add?backoff_factor_milli=1", "backoff.factor_milli"},
		{"both times", "/add?run_at=1&delay_ms=1", "delay_ms"},
		{"empty name", "/add?jobtype=", "type"},
		{"bad name", "/add?client=a%20b", "client"},
		{"not a query", "/add?a=%zz", ""},
		{"queue twice", "/a/job/b/add?client=a", "client"},
		{"bad name in the path", "/a/job/b!/add", "type"},
		{"dots in the path", "/a/job/../add", "type"},
	} {
		t.Run(c.name, func(t *testing.T) { r.add(c.path, "x\n").wrong(c.field) })
	}
}

func TestFlagsAreDefaults(t *testing.T) {
	r := start(t, func(o *setup) { o.Defaults = command.Defaults{MaxAttempts: 7, LeaseMs: 5000, RetentionMs: -1} })
	want(t, r.post("/jobs/create", `{}`).object(http.StatusCreated), "max_attempts", 7, "lease_ms", 5000)
	testkit.Equal(t, r.server.decode.Defaults.RetentionMs, 0, "retention")
	for _, d := range []command.Defaults{{MaxAttempts: 1001}, {LeaseMs: 1}, {RetentionMs: job.MaxDelayMs + 1}} {
		_, err := newServer(Options{Defaults: d}, r.engine)
		testkit.Holds(t, err != nil, d, "is taken")
	}
}

// TestJobsOfNoBatch: a job that was created alone, without a key, belongs to no batch, even if its record has other
// jobs. So the answer to a request does not depend on the load.
func TestJobsOfNoBatch(t *testing.T) {
	r := start(t)
	const callers = 8
	ids := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			o := r.post("/jobs/create", fmt.Sprintf(`{"payload":"%d","client":"acme"}`, i)).object(http.StatusCreated)
			ids[i] = o["job_id"].(string)
			batch, given := o["batch_id"]
			testkit.Holds(t, batch == nil && given, "job", i, "has the batch", batch)
		})
	}
	wg.Wait()
	for i, id := range ids {
		want(t, r.get("/jobs/"+id).object(http.StatusOK), "payload", fmt.Sprint(i), "batch_id", nil)
		batch := testkit.Must(job.ParseID(id))(t)
		path := "/batches/" + batch.WithLine(0).String()
		r.get(path).refused(http.StatusNotFound, "batch_not_found")
		r.post(path+"/cancel", "").refused(http.StatusNotFound, "batch_not_found")
	}
	for _, j := range r.get("/jobs?client=acme").object(http.StatusOK)["jobs"].([]any) {
		want(t, j.(map[string]any), "batch_id", nil, "status", "pending")
	}
	for _, j := range r.post("/jobs/claim", fmt.Sprintf(`{"runner_id":"r","max":%d}`, callers)).object(http.StatusOK)["jobs"].([]any) {
		batch, given := j.(map[string]any)["batch_id"]
		testkit.Holds(t, !given, "batch_id is", batch) // fields that are null are left out
	}
	keyed := r.post("/jobs/create", `{"payload":"x","unique_key":"k"}`).object(http.StatusCreated)
	want(t, keyed, "batch_id", keyed["job_id"])
}

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
			testkit.Holds(t, first.status == http.StatusCreated && again.status == first.status && again.body == first.body &&
				again.header.Get("Daybook-Seq") == first.header.Get("Daybook-Seq"), first.status, first.body, "and again", again.status, again.body)
			got, was := again.header.Get("Idempotency-Replayed"), first.header.Get("Idempotency-Replayed")
			testkit.Holds(t, got == "true" && was == "", "Idempotency-Replayed", got, "first", was)
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
	testkit.Equal(t, r.commands(), before, "commands after a repeat")
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
	a := claim(one, "2")
	testkit.Holds(t, a.status == http.StatusNoContent && a.header.Get("Idempotency-Replayed") == "true", a.status, a.header)
	// Another runner can use the same key. A claim that got no jobs is carried out again.
	const other = `{"runner_id":"s","max":2}`
	testkit.Equal(t, len(ids(claim(other, "1").object(http.StatusOK))), 1, "another runner")
	a = claim(`{"runner_id":"s"}`, "3")
	testkit.Equal(t, a.status, http.StatusNoContent, a.body)
	r.add("/add", "e\n")
	a = claim(`{"runner_id":"s"}`, "3")
	testkit.Holds(t, a.status == http.StatusOK && a.header.Get("Idempotency-Replayed") == "", a.status, a.body)
}

// TestPlace: the line of a job counts over all requests that filled its batch.
func TestPlace(t *testing.T) {
	r := start(t)
	place := func(id, batch string, line any) {
		t.Helper()
		want(t, r.get("/jobs/"+id+"?view=place").object(http.StatusOK), "job_id", id, "batch_id", batch, "line", line)
	}
	o := r.post("/jobs/create", `{"batch":{"type":"x","open":true},"jobs":[{"payload":"0"},{"payload":"1"}]}`).object(http.StatusCreated)
	batch := o["batch_id"].(string)
	place(o["last_id"].(string), batch, 1)
	for i := range 3 {
		o = r.post("/batches/"+batch+"/jobs", `[{"payload":"a"},{"payload":"b"},{"payload":"c"}]`).object(http.StatusCreated)
		place(o["first_id"].(string), batch, 2+3*i)
		place(o["last_id"].(string), batch, 4+3*i)
	}

	plain := r.post("/jobs/create", `[{"type":"y"},{"type":"y"}]`).object(http.StatusCreated)
	place(plain["last_id"].(string), plain["batch_id"].(string), 1)
	a := r.delete("/jobs/" + plain["last_id"].(string))
	testkit.MustEqual(t, a.status, http.StatusNoContent, a.body)
	r.get("/jobs/"+plain["last_id"].(string)+"?view=place").refused(http.StatusNotFound, "job_not_found")

	alone := r.make(`{"type":"z"}`)
	o = r.get("/jobs/" + alone + "?view=place").object(http.StatusOK)
	testkit.Holds(t, o["batch_id"] == nil && o["line"] == nil, "a job without a batch", o)
	r.get("/jobs/"+unknownID+"?view=place").refused(http.StatusNotFound, "job_not_found")
	r.get("/jobs/" + alone + "?view=place&fields=step").wrong("view")
	a = r.get("/jobs/" + alone + "?view=place")
	a.object(http.StatusOK)
	tag := a.header.Get("ETag")
	a = r.get("/jobs/"+alone+"?view=place", "If-None-Match", tag)
	testkit.Holds(t, a.status == http.StatusNotModified && tag != "", a.status, "for the entity tag", tag)
}
