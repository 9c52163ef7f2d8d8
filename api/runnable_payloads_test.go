package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// TestPayloadOfContainerType: a create with a payload that no container can run is refused before the journal, in every
// form. Creates of types with other handlers, or without one, are not checked.
func TestPayloadOfContainerType(t *testing.T) {
	r := start(t)
	for typ, document := range map[string]string{"c": `{"kind":"container"}`, "e": `{"kind":"exec","program":"p"}`} {
		r.do(http.MethodPut, "/handlers/"+typ, strings.NewReader(document), "Content-Type", web.MIMEJSON).object(http.StatusCreated)
	}
	const good = `{"Container":{"Config":{"Image":"busybox","AttachStdout":true,"Hostname":"a1"}},"States":[{"State":"QUEUED","Step":"","Date":"2014-11-23T04:00:00Z"}]}`
	const bad = `{"nonsense":1}`
	quoted := func(s string) string {
		b := testkit.Must(json.Marshal(s))(t)
		return string(b)
	}
	inRuns := func(typ, payload string) string {
		return string(runs.AppendNewRun(runs.AppendCreation(nil, &runs.Creation{Jobs: 1, Runs: 1}), &runs.NewRun{Type: typ, N: 1, Kind: job.JSON, Frame: job.LineFrame, Payloads: []byte(payload + "\n")}))
	}
	type request struct{ path, body, media, says string }
	requests := func(typ, payload string) []request {
		one := `{"type":"` + typ + `","payload":` + payload + `}`
		return []request{
			{"/jobs/create", one, web.MIMEJSON, "nonsense"},
			{"/jobs/create", `{"type":"` + typ + `","payload":` + quoted(payload) + `}`, web.MIMEJSON, "nonsense"},
			{"/jobs/create", "[" + one + "]", web.MIMEJSON, "jobs[0]"},
			{"/jobs/create", one + "\n", web.MIMENDJSON, "line 1"},
			{"/jobs/create", `{"batch":{"name":"b"},"jobs":[` + one + `]}`, web.MIMEJSON, "jobs[0]"},
			{"/jobs/create", inRuns(typ, payload), web.MIMERuns, "job 1"},
			{"/add?jobtype=" + typ, payload, web.MIMEText, "line 1"},
			{"/default/job/" + typ + "/add", payload + "\n" + payload, web.MIMEText, "line 1"},
		}
	}
	for _, q := range append(requests("e", bad), requests("none", bad)...) {
		a := r.do(http.MethodPost, q.path, strings.NewReader(q.body), "Content-Type", q.media)
		testkit.Equal(t, a.status, http.StatusCreated, q.path, q.body, a.body)
	}
	for _, q := range requests("c", good) {
		a := r.do(http.MethodPost, q.path, strings.NewReader(q.body), "Content-Type", q.media)
		testkit.Equal(t, a.status, http.StatusCreated, q.path, q.body, a.body)
	}
	before := r.commands()
	for _, q := range requests("c", bad) {
		p := r.do(http.MethodPost, q.path, strings.NewReader(q.body), "Content-Type", q.media)
		if p.status != http.StatusBadRequest || !strings.Contains(p.body, "nonsense") || !strings.Contains(p.body, q.says) || !strings.Contains(p.body, "handler of kind container") {
			t.Errorf("%s %s: %d %s", q.path, q.body, p.status, p.body)
		}
	}
	after := r.commands()
	testkit.Equal(t, after, before, "the journal has", after-before, "commands more")
	for _, body := range []string{`{"type":"c"}`, `{"type":"c","binary_addr":"a"}`, `{"type":"c","payload_b64":"AA=="}`} {
		r.post("/jobs/create", body).wrong("payload")
	}
}
