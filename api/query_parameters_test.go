package api

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/internal/testkit"
)

// The tests of this file use the table of routes, so they include new routes.

// TestUnknownHeadersAreRefused: the server refuses a misspelt Daybook- header, and an empty list of names.
func TestUnknownHeadersAreRefused(t *testing.T) {
	r := start(t)
	r.get("/jobs", "Daybook-Min-Sec", "1").wrong("Daybook-Min-Sec")
	r.get("/jobs", "Daybook-Seq", "1").wantStatus(http.StatusOK) // as an answer gave it
	for _, field := range []string{"clients", "types"} {
		r.post("/jobs/claim", `{"runner_id":"r","`+field+`":[]}`).wrong(field)
		r.post("/jobs/claim", `{"runner_id":"r","`+field+`":null}`).wantStatus(http.StatusNoContent)
	}
}

// TestUnknownParametersAreRefused: no route ignores a query parameter, and the server refuses it before it changes
// anything.
func TestUnknownParametersAreRefused(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t, func(o *setup) { o.Quit, o.GetSwitches = func() { t.Error("quit") }, true })
	id := r.post("/jobs/create", `{"client":"a","type":"b"}`).object(http.StatusCreated)["job_id"].(string)
	all := append(withHeads(r.server.routes()), r.server.getSwitches()...)
	for i := range all {
		route := &all[i]
		path := strings.NewReplacer(":id", id, ":client", "a", ":type", "b", ":file", "page.js").Replace(route.path)
		for query, field := range map[string]string{"nonsense=1": "nonsense", "max=10": "max", "a%zz": "", "Status=failed": "Status"} {
			testkit.MustHold(t, query != "max=10" || !strings.Contains(route.query, "max "), route.path, "has a parameter max")
			a := r.do(route.method, path+"?"+query, nil)
			if route.method == http.MethodHead {
				a.wantStatus(http.StatusBadRequest)
				continue
			}
			a.wrong(field)
		}
		for name := range strings.FieldsSeq(route.query) {
			if strings.HasSuffix(name, ".") {
				name += "x"
			}
			name, repeated := strings.CutSuffix(name, "*")
			if a := r.do(route.method, path+"?"+name+"=1&zzz=1", nil); route.method != http.MethodHead {
				a.wrong("zzz")
			}
			if a := r.do(route.method, path+"?"+name+"=1&"+name+"=2", nil); !repeated && route.method != http.MethodHead && !strings.Contains(a.wrong(name)["detail"].(string), "twice") {
				t.Errorf("%s: %s", a.what, a.body)
			}
		}
	}
	want(t, r.get("/jobs/"+id).object(http.StatusOK), "status", "pending")
	want(t, r.get("/stats").object(http.StatusOK), "stopped", false)
	r.do(http.MethodDelete, "/jobs/"+id+"?status=failed", nil).wrong("status")
	r.post("/jobs/claim?max=10", `{"runner_id":"r"}`).wrong("max")
}

// TestDeclaredParametersAreRead: the handler of a route reads each parameter that the route declares, and refuses an
// invalid value.
func TestDeclaredParametersAreRead(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"client":"a","type":"b"}`).object(http.StatusCreated)["job_id"].(string)
	for _, route := range r.server.routes() {
		path := strings.NewReplacer(":id", id, ":client", "a", ":type", "b").Replace(route.path)
		for name := range strings.FieldsSeq(route.query) {
			if strings.HasSuffix(name, ".") {
				name += "x%20y"
			}
			name = strings.TrimSuffix(name, "*")
			a := r.do(route.method, path+"?"+name+"=%20%FF", nil)
			testkit.Holds(t, a.status == http.StatusBadRequest && !strings.Contains(a.body, "is not known"), a.what, a.status, a.body)
		}
	}
}

// TestBodiesOfGetAndDelete: the server refuses a body that it would ignore.
func TestBodiesOfGetAndDelete(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"client":"a","type":"b"}`).object(http.StatusCreated)["job_id"].(string)
	for _, route := range withHeads(r.server.routes()) {
		if route.method == http.MethodPost || route.method == http.MethodPatch || route.method == http.MethodPut {
			continue
		}
		path := strings.NewReplacer(":id", id, ":client", "a", ":type", "b", ":file", "page.js").Replace(route.path)
		a := r.do(route.method, path, strings.NewReader(`{"status":"failed"}`), "Content-Type", "application/json")
		if route.method == http.MethodHead {
			a.wantStatus(http.StatusBadRequest)
			continue
		}
		a.wrong("")
	}
	want(t, r.get("/jobs/"+id).object(http.StatusOK), "status", "pending")
}

// TestHead: every path with GET supports HEAD, with the same headers and without a body.
func TestHead(t *testing.T) {
	r := start(t)
	id := r.post("/jobs/create", `{"client":"a","type":"b"}`).object(http.StatusCreated)["job_id"].(string)
	for _, route := range r.server.routes() {
		path := strings.NewReplacer(":id", id, ":client", "a", ":type", "b", ":file", "page.js").Replace(route.path)
		if route.method != http.MethodGet {
			continue
		}
		get, head := r.get(path), r.do(http.MethodHead, path, nil)
		if head.body != "" || head.status != get.status || head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("ETag") != get.header.Get("ETag") {
			t.Errorf("%s: %d %v %q, and GET %d %v", path, head.status, head.header, head.body, get.status, get.header)
		}
	}
	a := r.do(http.MethodHead, "/jobs/claim", nil)
	testkit.Holds(t, a.status == http.StatusMethodNotAllowed && a.header.Get("Allow") == "POST", a.status, a.header)
	a = r.do(http.MethodPut, "/jobs", nil)
	testkit.Holds(t, a.status == http.StatusMethodNotAllowed && a.header.Get("Allow") == "GET, HEAD", a.status, a.header)
}

// TestRoot: the page at the server's address has links to the documentation.
func TestRoot(t *testing.T) {
	r := start(t, func(o *setup) { o.Build = Version{Version: "v1.2.3"} })
	o := r.get("/").object(http.StatusOK)
	want(t, o, "name", "daybook", "version", "v1.2.3", "docs", "docs")
	for name, link := range o {
		if name != "name" && name != "version" {
			r.get("/" + link.(string)).wantStatus(http.StatusOK)
		}
	}
	page := r.get("/", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	links := regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(page.body, -1)
	if page.status != http.StatusOK || page.header.Get("Content-Type") != "text/html; charset=utf-8" || len(links) < 5 {
		t.Errorf("%d %v %s", page.status, page.header, page.body)
	}
	for _, link := range links {
		if strings.HasPrefix(link[1], "/") {
			t.Errorf("the link %s does not work under a path prefix", link[1])
		}
		r.get("/" + link[1]).wantStatus(http.StatusOK)
	}
}

// TestRequireClaimID: with the option, the server refuses requests of runners without a claim_id.
func TestRequireClaimID(t *testing.T) {
	r := start(t, func(o *setup) { o.RequireClaimID = true })
	r.add("/add", "a\nb\nc\n")
	o := r.post("/jobs/claim", `{"runner_id":"r","max":3}`).object(http.StatusOK)
	claim, jobs := o["claim_id"].(string), ids(o)
	for _, c := range []struct{ path, body string }{
		{"/jobs/" + jobs[0] + "/tickle", ""},
		{"/jobs/" + jobs[0] + "/tickle", `{"runner_id":"r"}`},
		{"/jobs/tickle", fmt.Sprintf(`{"job_ids":[%q]}`, jobs[0])},
		{"/jobs/tickle", `{"runner_id":"r"}`},
		{"/jobs/" + jobs[0] + "/complete", `{"status":"completed"}`},
		{"/jobs/" + jobs[0] + "/complete", `{"status":"completed","runner_id":"r"}`},
		{"/jobs/" + jobs[0] + "/release", `{"how":"unget"}`},
		{"/jobs/complete", fmt.Sprintf(`{"outcomes":[{"job_id":%q,"claim_id":%q,"status":"failed"},{"job_id":%q,"status":"completed"}]}`, jobs[0], claim, jobs[1])},
		{"/jobs/claim", fmt.Sprintf(`{"runner_id":"r","complete":[{"job_id":%q,"status":"completed"}]}`, jobs[0])},
	} {
		want(t, r.post(c.path, c.body).refused(http.StatusBadRequest, "claim_id_required"), "field", "claim_id")
	}
	lines := fmt.Sprintf("{\"job_id\":%q,\"status\":\"completed\"}\n", jobs[0])
	r.do(http.MethodPost, "/jobs/complete", strings.NewReader(lines), "Content-Type", web.MIMENDJSON).refused(http.StatusBadRequest, "claim_id_required")
	want(t, r.get("/claims/"+claim).object(http.StatusOK), "held", 3)

	r.post("/jobs/"+jobs[0]+"/tickle", fmt.Sprintf(`{"claim_id":%q}`, claim)).object(http.StatusOK)
	r.post("/jobs/tickle", fmt.Sprintf(`{"claim_id":%q}`, claim)).object(http.StatusOK)
	r.post("/jobs/"+jobs[0]+"/release", fmt.Sprintf(`{"how":"unget","claim_id":%q}`, claim)).object(http.StatusOK)
	want(t, r.post("/jobs/complete", fmt.Sprintf(`{"claim_id":%q,"status":"completed"}`, claim)).object(http.StatusOK), "ended", 2)
}

// TestLineForm: the header of a CSV file and the carriage returns of Windows do not become part of payloads.
func TestLineForm(t *testing.T) {
	r := start(t)
	payloads := func(query, body string) string {
		r.Helper()
		o := r.add("/add?"+query, body).object(http.StatusCreated)
		var list []string
		if batch, ok := o["batch_id"].(string); ok {
			for _, j := range r.get("/jobs?client=" + "default&fields=payload,batch_id").object(http.StatusOK)["jobs"].([]any) {
				if j := j.(map[string]any); j["batch_id"] == batch {
					list = append(list, fmt.Sprint(j["payload"]))
				}
			}
		}
		return fmt.Sprintf("%q", list)
	}
	const csv = "id,name\r\n1,a\r\n\r\n2,b\r\r\n3,c"
	for _, c := range []struct{ query, want string }{
		{"", `["id,name\r" "1,a\r" "\r" "2,b\r\r" "3,c"]`},
		{"strip_cr=false&skip_lines=0", `["id,name\r" "1,a\r" "\r" "2,b\r\r" "3,c"]`},
		{"strip_cr=true", `["id,name" "1,a" "2,b\r" "3,c"]`},
		{"skip_lines=1&strip_cr=true", `["1,a" "2,b\r" "3,c"]`},
		{"skip_lines=3", `["2,b\r\r" "3,c"]`},
		{"skip_lines=1000", `[]`},
	} {
		testkit.Equal(t, payloads(c.query, csv), c.want, c.query)
	}
	for query, field := range map[string]string{"skip_lines=1001": "skip_lines", "skip_lines=-1": "skip_lines", "skip_lines=x": "skip_lines", "strip_cr=1": "strip_cr", "strip_cr=": "strip_cr"} {
		r.add("/add?"+query, "x\n").wrong(field)
	}
	// With an idempotency key, a repeat must have the same form of lines.
	r.add("/add?skip_lines=1", "a\nb\n", "Idempotency-Key", "k").wantStatus(http.StatusCreated)
	a := r.add("/add?skip_lines=1", "a\nb\n", "Idempotency-Key", "k")
	testkit.Equal(t, a.header.Get("Idempotency-Replayed"), "true", a.status, a.header)
	r.add("/add", "a\nb\n", "Idempotency-Key", "k").refused(http.StatusUnprocessableEntity, "key_reused")
}

// TestKeysAreRefusedWhereTheyDoNothing: routes that do not support idempotency keys and session numbers refuse them,
// because a client that sends one relies on it.
func TestKeysAreRefusedWhereTheyDoNothing(t *testing.T) {
	testkit.OneByOne(t)
	r := start(t, func(o *setup) { o.Quit = func() {} })
	path := strings.NewReplacer(":id", unknownID, ":client", "c", ":type", "t", ":file", "index.html", ":address", addressOf("{}"))
	r.put("/blobs", "{}").wantStatus(http.StatusCreated)
	for _, route := range r.server.routes() {
		for _, header := range web.OnceHeaders {
			a := r.do(route.method, path.Replace(route.path), nil, header, "1")
			switch {
			case route.method == http.MethodGet:
				if a.status >= http.StatusBadRequest && a.status != http.StatusNotFound && a.status != http.StatusUpgradeRequired {
					t.Errorf("%s with %s: %d %s", a.what, header, a.status, a.body)
				}
			case route.keyed:
				testkit.Holds(t, !strings.Contains(a.body, "does not support the header"), a.what, "with", header, a.body)
			default:
				a.wrong(header)
			}
		}
	}
	// Every route that supports the headers declares this.
	r.post("/jobs/"+unknownID+"/release", `{"how":"retry"}`, web.HeaderKey, "k").refused(http.StatusNotFound, "job_not_found")
	r.post("/jobs/"+unknownID+"/complete", `{"code":"ok"}`, web.HeaderKey, "k2").refused(http.StatusNotFound, "job_not_found")
}
