package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// countedBody counts reads of a body, which never arrives.
type countedBody struct{ reads int }

func (b *countedBody) Read([]byte) (int, error) { b.reads++; return 0, io.ErrUnexpectedEOF }
func (b *countedBody) Close() error             { return nil }

// codeIn returns the code of a problem, or "" if the text is not a problem.
func codeIn(t *testing.T, text string) string {
	t.Helper()
	var p struct {
		Code string `json:"code"`
	}
	if strings.HasPrefix(text, "{") {
		testkit.NoError(t, json.Unmarshal([]byte(text), &p), text)
	}
	return p.Code
}

// TestHeadIsRefusedBeforeTheBody: a mistake in the head of a request is refused before the body, which may be large or
// slow, has arrived.
func TestHeadIsRefusedBeforeTheBody(t *testing.T) {
	engine := &faulty{}
	r := start(t, func(o *setup) {
		engine.parts = o.parts
		o.parts, o.Quit, o.GetSwitches = partsOf(engine, engine), func() {}, true
	})
	x := &everyStatus{
		rig: r, faults: engine, seen: &statuses{seen: map[string]map[int]bool{}}, byName: map[string]*tried{},
		id: r.add("/a/job/b/add", "x\n").object(http.StatusCreated)["first_id"].(string),
	}
	x.findOperations()
	long := strings.Repeat("n", 300)
	refused := 0
	for i := range x.operations {
		o := &x.operations[i]
		if !o.takesBody() || o.streams() {
			continue
		}
		send := func(path string, body io.ReadCloser, headers ...string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(o.method, "http://localhost"+path, nil)
			req.Body, req.ContentLength = body, int64(len(o.body))
			headers = append([]string{"Content-Type", o.kind}, append(o.headers, headers...)...)
			for i := 0; i < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			r.server.Handler().ServeHTTP(patient{w}, req.WithContext(t.Context()))
			return w
		}
		whole := func() io.ReadCloser { return io.NopCloser(strings.NewReader(o.body)) }
		plain := codeIn(t, send(o.path, whole()).Body.String()) // of its refusal, if the state of the server refuses it
		for name, fault := range map[string]struct {
			path    string
			headers []string
		}{
			"an unknown parameter":   {o.path + "?nonsense=1", nil},
			"a parameter twice":      {o.path + "?priority=1&priority=2", nil},
			"a wrong parameter":      {o.path + "?priority=x", nil},
			"an empty key":           {o.path, []string{web.HeaderKey, ""}},
			"a long key":             {o.path, []string{web.HeaderKey, strings.Repeat("k", 10_000)}},
			"an odd key":             {o.path, []string{web.HeaderKey, "a\x7fb"}},
			"a session alone":        {o.path, []string{web.HeaderSession, x.id}},
			"an odd session":         {o.path, []string{web.HeaderSession, "x", web.HeaderNumber, "1"}},
			"an odd number":          {o.path, []string{web.HeaderSession, x.id, web.HeaderNumber, "x"}},
			"a key and a session":    {o.path, []string{web.HeaderKey, "k", web.HeaderSession, x.id, web.HeaderNumber, "1"}},
			"a type of body":         {o.path, []string{"Content-Type", "text/html"}},
			"an encoding":            {o.path, []string{"Content-Encoding", "br"}},
			"a long name":            {strings.NewReplacer(":id", x.id, ":client", long, ":type", long, ":name", long, ":address", addressOf("{}")).Replace(o.route.path), nil},
			"an id that is none":     {strings.NewReplacer(":id", "x", ":client", "a", ":type", "b", ":name", "b", ":address", "x").Replace(o.route.path), nil},
			"a preference":           {o.path, []string{"Prefer", "return=each, return=all"}},
			"a type of answer":       {o.path, []string{"Accept", "image/png"}},
			"a wrong trace":          {o.path, []string{"Traceparent", "x"}},
			"an expectation":         {o.path, []string{"Expect", "nonsense"}},
			"a wrong claim":          {o.path + "?claim_id=x", nil},
			"a wrong offset":         {o.path + "?offset=x", nil},
			"a wrong runner":         {o.path + "?instance=", nil},
			"a wrong kind of output": {o.path, []string{"Daybook-Output-Kind", "x"}},
		} {
			counted := &countedBody{}
			early := send(fault.path, counted, fault.headers...)
			late := send(fault.path, whole(), fault.headers...)
			if code := codeIn(t, late.Body.String()); code == plain || late.Code != http.StatusBadRequest && late.Code != http.StatusUnsupportedMediaType && late.Code != http.StatusNotAcceptable {
				continue
			}
			refused++
			if counted.reads > 0 || early.Code != late.Code {
				t.Errorf("%s, %s: %d after %d reads of the body; with the body %d %s", o.name(), name, early.Code, counted.reads, late.Code, late.Body)
			}
		}
	}
	testkit.Holds(t, refused >= 200, "only", refused, "requests were refused")
}

// TestGetSwitchesAreOff: without --allow-get-switches, a GET of a switch is refused as in openapi.yaml. The refusal
// lists the methods that work.
func TestGetSwitchesAreOff(t *testing.T) {
	r, d := start(t), describedOf(t)
	for _, path := range []string{"/start", "/stop", "/quit"} {
		a := r.do(http.MethodGet, path, nil)
		if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: %d, Allow: %q", path, a.status, a.header.Get("Allow"))
		}
		described := d.doc.Paths.Value(path).Get.Responses.Status(a.status)
		testkit.Holds(t, described != nil && described.Value.Headers["Allow"] != nil, "GET", path, "405 is not described with its header")
	}
}

// TestSeriesOfRoutesAppearWithRequests: a route that nobody has called has no series in the metrics.
func TestSeriesOfRoutesAppearWithRequests(t *testing.T) {
	r := start(t)
	series := func(path string) int {
		return strings.Count(r.do(http.MethodGet, "/metrics", nil).body, `route="`+path+`"`)
	}
	testkit.Equal(t, series("/jobs/create"), 0, "series of a route that was not called")
	r.do(http.MethodPost, "/jobs/create", strings.NewReader("{}"), "Content-Type", web.MIMEJSON)
	n := series("/jobs/create")
	testkit.Holds(t, n >= 3, n, "series of a route that was called")
	testkit.Equal(t, series("/jobs/claim"), 0, "series of another route")
}
