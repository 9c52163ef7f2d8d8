package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
		if route.path == web.ReturnPath { // issuers add parameters
			continue
		}
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
			if name == "*" {
				continue
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
		testkit.Holds(t, head.body == "" && head.status == get.status && head.header.Get("Content-Type") == get.header.Get("Content-Type") &&
			head.header.Get("ETag") == get.header.Get("ETag"), path, head.status, head.header, head.body, "and GET", get.status, get.header)
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
	testkit.Holds(t, page.status == http.StatusOK && page.header.Get("Content-Type") == "text/html; charset=utf-8" &&
		len(links) >= 5, page.status, page.header, page.body)
	for _, link := range links {
		testkit.Holds(t, !strings.HasPrefix(link[1], "/"), "the link", link[1], "does not work under a path prefix")
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
				testkit.Holds(t, a.status < http.StatusBadRequest || a.status == http.StatusNotFound || a.status == http.StatusUpgradeRequired || route.path == "/cluster" && strings.Contains(a.body, `"no_cluster"`),
					a.what, "with", header, a.status, a.body)
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

func TestGuard(t *testing.T) {
	r := start(t, func(o *setup) { o.Hosts = []string{"queue.example"} })
	t.Run("host", func(t *testing.T) {
		for _, host := range []string{"127.0.0.1", "127.0.0.1:99", "127.9.9.9", "localhost", "localhost:1717", "LOCALHOST", "[::1]", "[::1]:80", "[::ffff:127.0.0.1]",
			"queue.example", "Queue.Example:443", "10.1.2.4:1717", "[2001:db8::1]:1717", "0.0.0.0"} {
			a := r.get("/ping", "Host", host)
			testkit.Equal(t, a.status, http.StatusOK, "host", host, a.body)
		}
		for _, host := range []string{"evil.example", "evil.example:1717", "127.0.0.1.evil.example", "localhost.evil.example", "queue.example.evil", "127.0.0.1.", "0x7f.1"} {
			o := r.get("/ping", "Host", host).refused(http.StatusForbidden, "forbidden_host")
			if detail := o["detail"].(string); !strings.Contains(detail, "--allow-host "+strings.TrimSuffix(host, ":1717")+" ") {
				t.Errorf("host %s: the refusal does not name the option: %s", host, detail)
			}
		}
	})
	t.Run("no host", func(t *testing.T) {
		for line, want := range map[string]int{
			"OPTIONS / HTTP/1.0": 204, "HEAD / HTTP/1.0": 200, "GET /ping HTTP/1.0": 200, "GET /healthz HTTP/1.0": 200, "HEAD /healthz HTTP/1.0": 200, "GET /readyz HTTP/1.0": 200,
			"OPTIONS /healthz HTTP/1.0": 204, "OPTIONS / HTTP/1.1\r\nHost:": 204, "GET /readyz HTTP/1.1\r\nHost: ": 200,
			"GET /stats HTTP/1.0": 403, "GET /jobs HTTP/1.1\r\nHost:": 403, "POST /jobs/create HTTP/1.0\r\nContent-Length: 2": 403,
			"GET /ping HTTP/1.1\r\nHost: evil.example": 403, "GET /ping HTTP/1.0\r\nHost: evil.example": 403,
			"GET /ping HTTP/1.0\r\nOrigin: http://evil.example": 403, "GET /ping HTTP/1.1\r\nHost:\r\nSec-Fetch-Site: cross-site": 403,
			"GET /ping HTTP/1.1": 400, // net/http refuses it
		} {
			testkit.Equal(t, r.raw(line+"\r\nConnection: close\r\n\r\n"), want, line)
		}
	})
	t.Run("origin", func(t *testing.T) {
		r.get("/ping", "Origin", r.url).wantStatus(http.StatusOK)
		host := strings.TrimPrefix(r.url, "http://")
		for _, origin := range []string{"http://evil.example", "null", "http://localhost:1", "https://" + host + ".evil", "file://" + host, "http://127.0.0.1"} {
			r.get("/ping", "Origin", origin).refused(http.StatusForbidden, "forbidden_origin")
		}
		r.get("/ping", "Origin", r.url, "Origin", "http://evil.example").refused(http.StatusForbidden, "forbidden_origin")
		for _, site := range []string{"same-origin", "none"} {
			r.get("/ping", "Sec-Fetch-Site", site).wantStatus(http.StatusOK)
		}
		for _, site := range []string{"cross-site", "same-site", "nonsense"} {
			r.get("/ping", "Sec-Fetch-Site", site).refused(http.StatusForbidden, "forbidden_origin")
		}
	})
	t.Run("percent", func(t *testing.T) {
		// An escaped character that a name can have is the same name. Other escapes are refused.
		r.add("/a%3Ab/job/x%3ay/add", "x\n").wantStatus(http.StatusCreated)
		r.add("/a:b/job/x%3A%79/add", "x\n").wantStatus(http.StatusCreated)
		for _, path := range []string{"/queues/a:b/x:y", "/queues/a%3Ab/x%3ay", "/queues/%61%3ab/x:%79", "/%71ueues/a:b/x:y"} {
			o := r.get(path).object(http.StatusOK)
			want(t, o, "client", "a:b", "type", "x:y")
			want(t, o["counts"].(map[string]any), "pending", 2)
		}
		o := r.get("/queues").object(http.StatusOK)
		testkit.Equal(t, len(o["queues"].([]any)), 1, o)
		r.add("/%6Aobs/job/x/add", "x\n").wrong("client") // reserved in any spelling
		r.get("/jobs/%2e%2e/ping").refused(http.StatusNotFound, "route_not_found")
		for _, path := range []string{"/acme/job/x%2Fy/add", "/acme/job/x%3A%2Fy/add", "/queues/a%20b/c/pause", "/queues/a%00b/c/pause", "/queues/a%25b/c/pause"} {
			r.add(path, "x\n").refused(http.StatusBadRequest, "bad_request")
		}
		r.get("/queues/caf\u00e9/x").refused(http.StatusBadRequest, "bad_request")
		r.get("/queues/a%3A\u00e9/x").refused(http.StatusBadRequest, "bad_request")
	})
	t.Run("routes", func(t *testing.T) {
		for _, path := range []string{"/nope", "/jobs/", "/claims", "/runners/r/x", "/queues/a", "/queues/a/b/c", "/batches/" + unknownID + "/x", "/ping/", "//ping", "/jobs/../ping"} {
			r.get(path).refused(http.StatusNotFound, "route_not_found")
		}
		for path, allow := range map[string]string{
			"/jobs/create": "POST", "/jobs/claim": "POST", "/add": "POST", "/ping": "GET", "/queues": "GET", "/jobs": "GET", "/runners": "GET", "/jobs/tickle": "POST",
			"/jobs/" + unknownID: "GET", "/queues/a/b": "GET", "/queues/a/b/pause": "POST", "/a/job/b/add": "POST",
		} {
			a := r.do(http.MethodPut, path, nil)
			a.refused(http.StatusMethodNotAllowed, "method_not_allowed")
			got := a.header.Get("Allow")
			testkit.Holds(t, strings.Contains(got, allow), path, "Allow", got, "want", allow)
		}
		r.get("/jobs/create").refused(http.StatusMethodNotAllowed, "method_not_allowed")
		a := r.do(http.MethodOptions, "/jobs/create", nil)
		testkit.Holds(t, a.status == http.StatusNoContent && strings.Contains(a.header.Get("Allow"), "POST"), "OPTIONS", a.status, a.header)
		testkit.Equal(t, r.raw("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n"), http.StatusNotFound, "OPTIONS *")
	})
	t.Run("content type", func(t *testing.T) {
		body := `{"runner_id":"r","types":["none"]}`
		for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
			a := r.do(http.MethodPost, "/jobs/claim", strings.NewReader(body), "Content-Type", kind)
			testkit.Equal(t, a.status, http.StatusNoContent, kind, a.body)
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1",
			"application/jsonp", "application/x-ndjson", "nonsense;;"} {
			o := r.do(http.MethodPost, "/jobs/claim", strings.NewReader(body), "Content-Type", kind).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
			want(t, o, "field", "Content-Type")
		}
		r.do(http.MethodPost, "/jobs/claim", strings.NewReader(body)).refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
		r.do(http.MethodPost, "/jobs/complete", strings.NewReader(""), "Content-Type", "application/x-ndjson").wantStatus(http.StatusOK)
		r.add("/add", "x\n", "Content-Type", "application/x-www-form-urlencoded").wantStatus(http.StatusCreated)
		o := r.add("/add", "x\n", "Content-Encoding", "br").refused(http.StatusUnsupportedMediaType, "unsupported_media_type")
		want(t, o, "field", "Content-Encoding")
	})
}

func (a reply) wantStatus(status int) {
	a.t.Helper()
	testkit.Equal(a.t, a.status, status, a.what, "status", a.body)
}

// raw sends bytes and returns the status of the answer. It returns 0 if the connection ended without an answer.
func (r *rig) raw(request string) int {
	r.Helper()
	c := testkit.Must(net.Dial("tcp", strings.TrimPrefix(r.url, "http://")))(r)
	defer c.Close()
	testkit.Must(c.Write([]byte(request)))(r)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return 0
	}
	var status int
	_, err = fmt.Sscanf(line, "HTTP/1.%d %d", new(int), &status)
	testkit.NoError(r, err, line)
	return status
}

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
	r := start(t, func(o *setup) { engine.Engine = o.engine; o.engine, o.Quit, o.GetSwitches = engine, func() {}, true })
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
			testkit.Holds(t, counted.reads == 0 && early.Code == late.Code,
				o.name(), name, early.Code, "after", counted.reads, "reads of the body; with the body", late.Code, late.Body)
		}
	}
	testkit.Holds(t, refused >= 200, "only", refused, "requests were refused")
}

// TestGetSwitchesAreOff: without --allow-get-switches, a GET of a switch is refused as the description says. The refusal
// lists the methods that work.
func TestGetSwitchesAreOff(t *testing.T) {
	r, d := start(t), describedOf(t)
	for _, path := range []string{"/start", "/stop", "/quit"} {
		a := r.do(http.MethodGet, path, nil)
		testkit.Holds(t, a.status == http.StatusMethodNotAllowed &&
			a.header.Get("Allow") == http.MethodPost, path, a.status, "Allow", a.header.Get("Allow"))
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
