package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestHandlerOfOneJob: the answer to a claim of one job names its handler in a header.
func TestHandlerOfOneJob(t *testing.T) {
	r := start(t)
	put := func(path string) map[string]any {
		t.Helper()
		return r.do(http.MethodPut, path, strings.NewReader(`{"kind":"exec","program":"`+strings.ReplaceAll(path, "/", ".")[1:5]+`"}`), "Content-Type", web.MIMEJSON).object(http.StatusCreated)
	}
	all := put("/handlers/x")
	own := put("/handlers/x?client=acme")
	for _, c := range []struct {
		body string
		of   map[string]any
	}{{`{"type":"x"}`, all}, {`{"type":"x","client":"acme"}`, own}, {`{"type":"y"}`, nil}} {
		r.post("/jobs/create", c.body).object(http.StatusCreated)
		a := r.post("/jobs/claim", `{"runner_id":"r"}`)
		want := ""
		if c.of != nil {
			want = c.of["handler_id"].(string) + " exec " + c.of["digest"].(string)
		}
		got := a.header.Get(answer.HeaderHandler)
		testkit.Holds(t, a.status == http.StatusOK && got == want, c.body, a.status, "the handler is", got, "want", want)
	}
}
