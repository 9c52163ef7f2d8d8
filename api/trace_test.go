package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
)

// TestTraceparentHeader: every form of create gives the header of its request to the jobs that have no traceparent.
func TestTraceparentHeader(t *testing.T) {
	const header, own = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	r := start(t)
	inRuns := func(traceparent string) string {
		one := newRun("x", job.Text, job.LineFrame, "a")
		one.Traceparent = traceparent
		return string(runs.AppendNewRun(runs.AppendCreation(nil, &runs.Creation{Jobs: 1, Runs: 1}), &one))
	}
	for form, c := range map[string]struct{ path, body, contentType, withOwn string }{
		"object":         {"/jobs/create", `{}`, web.MIMEJSON, `{"traceparent":"` + own + `"}`},
		"list":           {"/jobs/create", `[{}]`, web.MIMEJSON, `[{"traceparent":"` + own + `"}]`},
		"lines of JSON":  {"/jobs/create", `{}`, web.MIMENDJSON, `{"traceparent":"` + own + `"}`},
		"runs":           {"/jobs/create", inRuns(""), web.MIMERuns, inRuns(own)},
		"bulk lines":     {"/add", "x\n", web.MIMEText, ""},
		"lines to queue": {"/acme/job/mail/add", "x\n", web.MIMEText, ""},
	} {
		t.Run(form, func(t *testing.T) {
			created := func(path, body, header string) any {
				t.Helper()
				doc := r.do(http.MethodPost, path, strings.NewReader(body), "Content-Type", c.contentType, "traceparent", header).object(http.StatusCreated)
				id := doc["job_id"]
				if id == nil {
					id = doc["first_id"]
				}
				return r.get("/jobs/" + id.(string)).object(http.StatusOK)["traceparent"]
			}
			testkit.Equal(t, created(c.path, c.body, header), header, "the job")
			got := created(c.path, c.body, "00-xyz")
			testkit.Holds(t, got == nil, "with a malformed header the job has", got)
			path, body := c.path, c.withOwn
			if body == "" {
				path, body = c.path+"?traceparent="+own, c.body
			}
			testkit.Equal(t, created(path, body, header), own, "a job with its own traceparent")
		})
	}
	const rest = "-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	for text, want := range map[string]any{
		"01" + rest: header, "fe" + rest: header, "01" + rest + "-more": header,
		"ff" + rest: nil, "0A" + rest: nil, "1" + rest: nil, "01" + rest + "more": nil, "00" + rest + "-more": nil, "01-short": nil, "": nil, "+1" + rest: nil,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": nil, "01-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": nil,
	} {
		testkit.Equal(t, r.post("/jobs/create", `{}`, "traceparent", text).object(http.StatusCreated)["traceparent"], want, text, "the job")
	}
}
