package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

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
	if _, err := fmt.Sscanf(line, "HTTP/1.%d %d", new(int), &status); err != nil {
		r.Fatalf("%q: %v", line, err)
	}
	return status
}
