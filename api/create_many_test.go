package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

func TestCreateArray(t *testing.T) {
	r := start(t)
	o := r.post("/jobs/create", ` [{"payload":"one"},{"payload":{"a":"two"}},{"payload":"three\nlines","priority":9},{}]`).object(http.StatusCreated)
	want(t, o, "count", 4)
	_, there := o["results"]
	testkit.Holds(t, !there, "results that nobody asked for", o)
	batch, first, last := o["batch_id"].(string), o["first_id"].(string), o["last_id"].(string)
	id := testkit.Must(job.ParseID(last))(t)
	testkit.Holds(t, batch == first && id.Line() == 3, "batch", batch, "from", first, "to", last)
	for line, payload := range []string{`"one"`, `{"a":"two"}`, `"three\nlines"`, `null`} {
		a := r.get("/jobs/" + id.WithLine(line).String())
		testkit.Holds(t, strings.Contains(a.body, `"payload":`+payload), "line", line, a.body)
	}
	want(t, r.get("/jobs/"+id.WithLine(2).String()).object(http.StatusOK), "priority", 9)

	lines := r.do(http.MethodPost, "/jobs/create", strings.NewReader("{\"payload\":1}\n\n{\"payload\":2}"), "Content-Type", web.MIMENDJSON).object(http.StatusCreated)
	want(t, lines, "count", 2)
	for _, nothing := range []string{"[]", " [ ] "} {
		want(t, r.post("/jobs/create", nothing).object(http.StatusCreated), "count", 0, "batch_id", nil, "first_id", nil, "last_id", nil)
	}
	want(t, r.do(http.MethodPost, "/jobs/create", strings.NewReader("\n"), "Content-Type", web.MIMENDJSON).object(http.StatusCreated), "count", 0)
}

// TestBatchRefuses: a refusal names the mistake in a batch, or in an addition to a batch.
func TestBatchRefuses(t *testing.T) {
	r := start(t)
	open := "/batches/" + r.post("/jobs/create", `{"batch":{"open":true,"chunk_size":1}}`).object(http.StatusCreated)["batch_id"].(string) + "/jobs"
	for _, c := range []struct{ path, body, field, detail string }{
		{"/jobs/create", `{"batch":{"chunk_size":0}}`, "batch.chunk_size", "must be 1 or more, not 0"},
		{"/jobs/create", `{"batch":{"chunk_size":-5}}`, "batch.chunk_size", "must be 1 or more, not -5"},
		{open, `{"jobs":[{"payload":"x"}]}`, "jobs[0].jobs", "several jobs are a list"},
		{open, `{"batch":{"name":"x"},"jobs":[{"payload":"x"}]}`, "jobs[0].batch", "the batch is that of the path"},
		{open, `[{"batch":{"name":"x"}},{"payload":"x"}]`, "jobs[0].batch", "the batch is that of the path"},
		{open, `[{"payload":"x"},{"batch":{"name":"x"}}]`, "jobs[1].batch", "the batch is that of the path"},
	} {
		o := r.post(c.path, c.body).refused(http.StatusBadRequest, "bad_request")
		testkit.Holds(t, o["field"] == c.field && strings.Contains(fmt.Sprint(o["detail"]), c.detail), c.path, c.body, o)
	}
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	o := r.do(http.MethodPost, open, strings.NewReader("x\n"), form...).refused(http.StatusUnsupportedMediaType, web.CodeUnsupported)
	testkit.Holds(t, strings.Contains(fmt.Sprint(o["detail"]), "text/plain"), o)
	o = r.do(http.MethodPost, "/jobs/create", strings.NewReader("x\n"), form...).refused(http.StatusUnsupportedMediaType, web.CodeUnsupported)
	testkit.Holds(t, !strings.Contains(fmt.Sprint(o["detail"]), "text/plain"), o)
}

// TestCreateArrayRefuses: if one position of a body is wrong, the server creates no job, and the problem names the
// position.
func TestCreateArrayRefuses(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	for _, c := range []struct{ name, body, field string }{
		{"a field of one", `[{},{"priority":10}]`, "jobs[1].priority"},
		{"an unknown field", `[{},{},{"x":1}]`, "jobs[2].x"},
		{"not an object", `[{},5]`, "jobs[1]"},
		{"cut off", `[{},{"a"`, ""},
		{"a comma too many", `[{},]`, ""},
		{"text after the list", `[{}] x`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := r.post("/jobs/create", c.body).refused(http.StatusBadRequest, "bad_request")
			testkit.Holds(t, c.field == "" || fmt.Sprint(o["field"]) == c.field || strings.Contains(fmt.Sprint(o["detail"]), c.field), o)
		})
	}
	o := r.do(http.MethodPost, "/jobs/create", strings.NewReader("{}\n{\"priority\":10}\n"), "Content-Type", web.MIMENDJSON).wrong("priority")
	testkit.Holds(t, strings.HasPrefix(o["detail"].(string), "line 2: "), o)
	for name, many := range map[string]struct {
		n      int
		item   func(i int) string
		status int
	}{
		"keys":          {job.MaxUniqueKeys, func(i int) string { return fmt.Sprintf(`{"unique_key":"%d"}`, i) }, 201},
		"a key more":    {job.MaxUniqueKeys + 1, func(i int) string { return fmt.Sprintf(`{"unique_key":"%d"}`, i) }, 400},
		"groups":        {job.MaxGroups, func(i int) string { return fmt.Sprintf(`{"priority":%d}`, i%2) }, 201},
		"a group more":  {job.MaxGroups + 1, func(i int) string { return fmt.Sprintf(`{"priority":%d}`, i%2) }, 400},
		"many of equal": {5000, func(int) string { return `{"payload":"x","meta":{"a":"b"}}` }, 201},
	} {
		items := make([]string, many.n)
		for i := range items {
			items[i] = many.item(i)
		}
		for _, prefer := range []string{"", "results=each"} {
			a := r.post("/jobs/create", "["+strings.Join(items, ",")+"]", "Prefer", prefer)
			testkit.Equal(t, a.status, many.status, name, prefer, a.body)
			if strings.HasPrefix(name, "key") { // the second time they are held
				r.do(http.MethodDelete, "/queues/default/default/jobs?status=all", nil)
			}
		}
	}
}

func TestResultsEach(t *testing.T) {
	r := start(t)
	body := `[{"payload":"a","unique_key":"k"},{"priority":-1},{"payload":"b","unique_key":"k"},{"payload":"c"}]`
	a := r.post("/jobs/create", body, "Prefer", `respond-async, Results="each"; x=1`)
	o := a.object(http.StatusCreated)
	testkit.Equal(t, a.header.Get("Preference-Applied"), "results=each", "Preference-Applied")
	want(t, o, "count", 2)
	results := o["results"].([]any)
	testkit.MustEqual(t, len(results), 4)
	at := func(i int) map[string]any { return results[i].(map[string]any) }
	want(t, at(0), "job_id", o["first_id"], "existing", false)
	want(t, at(1), "job_id", nil, "code", "bad_request", "field", "priority")
	want(t, at(2), "job_id", o["first_id"], "existing", true)
	want(t, at(3), "job_id", o["last_id"], "existing", false)
	want(t, r.get("/batches/"+o["batch_id"].(string)).object(http.StatusOK), "count", 3, "purged", 1)

	// Without the preference, the wrong position makes the server refuse all jobs. Without a wrong position, the answer
	// has results because of the unique key.
	r.post("/jobs/create", body).refused(http.StatusBadRequest, "bad_request")
	again := r.post("/jobs/create", `[{"payload":"d","unique_key":"k"}]`).object(http.StatusCreated)
	want(t, again, "count", 0)
	want(t, again["results"].([]any)[0].(map[string]any), "job_id", o["first_id"], "existing", true)
	r.get("/batches/"+again["batch_id"].(string)).refused(http.StatusNotFound, "batch_not_found")
}

func TestUniqueKey(t *testing.T) {
	r := start(t)
	first := r.post("/jobs/create", `{"payload":"one","unique_key":"order 7"}`).object(http.StatusCreated)
	want(t, first, "existing", false, "unique_key", "order 7", "payload", "one")
	second := r.post("/jobs/create", `{"payload":"two","unique_key":"order 7"}`).object(http.StatusOK)
	want(t, second, "existing", true, "job_id", first["job_id"], "payload", "one")
	want(t, r.post("/jobs/create", `{"unique_key":"order 7","type":"other"}`).object(http.StatusCreated), "existing", false)
	// Each way in which the job can end frees the unique key.
	for _, end := range []string{"complete", "fail", "cancel", "delete"} {
		id := r.post("/jobs/create", `{"unique_key":"order 7"}`).object(http.StatusOK)["job_id"].(string)
		switch end {
		case "cancel":
			r.post("/jobs/"+id+"/cancel", "").object(http.StatusOK)
		case "delete":
			a := r.do(http.MethodDelete, "/jobs/"+id, nil)
			testkit.MustEqual(t, a.status, http.StatusNoContent, a.body)
		default:
			r.post("/jobs/claim", `{"runner_id":"r","types":["default"]}`).object(http.StatusOK)
			status := map[string]string{"complete": "completed", "fail": "failed"}[end]
			r.post("/jobs/"+id+"/complete", `{"status":"`+status+`"}`).object(http.StatusOK)
		}
		want(t, r.post("/jobs/create", `{"unique_key":"order 7"}`).object(http.StatusCreated), "existing", false)
	}
	r.post("/jobs/create", `{"unique_key":""}`).wrong("unique_key")
	r.post("/jobs/create", `{"unique_key":"`+strings.Repeat("k", job.MaxKeyBytes)+`"}`).object(http.StatusCreated)
	r.post("/jobs/create", `{"unique_key":"`+strings.Repeat("k", job.MaxKeyBytes+1)+`"}`).wrong("unique_key")
}

func TestAttributesOfLife(t *testing.T) {
	r := start(t)
	const trace, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	o := r.post("/jobs/create", `{"expires_at":253402300799999,"timeout_ms":1000,"meta":{"b":"2","a":"ü=,"},"traceparent":"`+trace+`"}`, "traceparent", other).object(http.StatusCreated)
	want(t, o, "expires_at", 253402300799999, "timeout_ms", 1000, "meta", "map[a:ü=, b:2]", "traceparent", trace, "why", nil, "redrives", 0)
	want(t, r.get("/jobs/"+o["job_id"].(string)).object(http.StatusOK), "expires_at", 253402300799999, "timeout_ms", 1000, "meta", "map[a:ü=, b:2]", "traceparent", trace)
	want(t, r.post("/jobs/create", `{}`, "traceparent", other).object(http.StatusCreated), "traceparent", other, "meta", "map[]")
	want(t, r.post("/jobs/create", `{}`, "traceparent", "nonsense").object(http.StatusCreated), "traceparent", nil)
	added := r.add("/add?expires_at=253402300799999&timeout_ms=86400000&meta.k=v&traceparent="+trace, "x\n").object(http.StatusCreated)
	want(t, r.get("/jobs/"+added["first_id"].(string)).object(http.StatusOK), "timeout_ms", 86400000, "meta", "map[k:v]", "traceparent", trace)
	claimed := r.post("/jobs/claim", `{"runner_id":"r","max":9}`).object(http.StatusOK)["jobs"].([]any)[0].(map[string]any)
	want(t, claimed, "traceparent", trace, "meta", "map[a:ü=, b:2]")
	testkit.Equal(t, len(r.get("/jobs?meta.a=" + "%C3%BC%3D%2C").object(http.StatusOK)["jobs"].([]any)), 1, "jobs with a in meta")
	long := strings.Repeat("v", job.MaxMetaValueBytes)
	for _, c := range []struct{ body, field string }{
		{`{"timeout_ms":999}`, "timeout_ms"}, {`{"timeout_ms":86400001}`, "timeout_ms"}, {`{"expires_at":-1}`, "expires_at"},
		{`{"expires_at":5,"run_at":5}`, "expires_at"}, {`{"meta":{"a b":"c"}}`, "meta"}, {`{"meta":{"a":5}}`, "meta.a"}, {`{"meta":{"a":"` + long + `x"}}`, "meta"},
		{`{"traceparent":"x"}`, "traceparent"}, {`{"meta":{` + metaPairs(job.MaxMeta+1) + `}}`, "meta"},
	} {
		r.post("/jobs/create", c.body).wrong(c.field)
	}
	r.post("/jobs/create", `{"meta":{`+metaPairs(job.MaxMeta-1)+`,"a":"`+long+`"},"timeout_ms":0}`).object(http.StatusCreated)
	r.add("/add?meta.=v", "x\n").wrong("meta")
}

func metaPairs(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"k%d":""`, i)
	}
	return strings.Join(pairs, ",")
}

// TestResultsAreBounded: the number of results is bounded, because a few bytes of a body need hundreds of bytes in the
// answer.
func TestResultsAreBounded(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t)
	for _, c := range []struct{ name, first, rest, prefer string }{
		{"each", "{}\n", "{}\n", "results=each"},
		{"each of what is refused", "1\n", "1\n", "results=each"},
		{"a unique key", `{"unique_key":"k"}` + "\n", "{}\n", ""},
		{"a unique key at the end", "{}\n", "{}\n", "last"},
	} {
		t.Run(c.name, func(t *testing.T) {
			post := func(n int) reply {
				body := c.first + strings.Repeat(c.rest, n-1)
				prefer := c.prefer
				if prefer == "last" {
					body, prefer = strings.Repeat(c.rest, n-1)+`{"unique_key":"l"}`+"\n", ""
				}
				return r.do(http.MethodPost, "/jobs/create", strings.NewReader(body), "Content-Type", "application/x-ndjson", "Prefer", prefer)
			}
			testkit.Equal(t, len(post(job.MaxResults).object(http.StatusCreated)["results"].([]any)), job.MaxResults, "results")
			post(job.MaxResults+1).refused(http.StatusBadRequest, "bad_request")
		})
	}
}
