package wasi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/webhook"
)

// TestGrants: the runner must grant each permission that a handler requires.
func TestGrants(t *testing.T) {
	f := newFixture(t, func(s *Settings) {
		s.Grants = []string{"http:example.com", "http:localhost:8080", "extension:*"}
		s.Extensions = extensions(t, "fib.wasm")
	})
	for _, c := range []struct {
		required  []string
		extension string
		text      string
	}{
		{[]string{"http:example.com", "http:EXAMPLE.com", "http:localhost:8080", "extension:fib", "extension:*"}, "fib", ""},
		{[]string{"proc:read:*"}, "", "it requires the permission proc:read:*"},
		{[]string{"http:example.com", "http:*"}, "", "it requires the permission http:*"},
		{[]string{"http:example.org"}, "", "it requires the permission http:example.org"},
		{[]string{"http:"}, "", `"http:" is no permission`},
		{[]string{"proc:write:*"}, "", `"proc:write:*" is no permission; the permissions are proc:read:*`},
		{[]string{"everything"}, "", `"everything" is no permission`},
		{[]string{"extension:../x"}, "", "is no permission"},
		{nil, "other", "it requires the extension other"},
		{slices.Repeat([]string{"http:example.com"}, handler.MaxPermissions+1), "", "there are 101 permissions"},
	} {
		h := &Handler{Permissions: c.required}
		if c.extension != "" {
			h.Extensions = []string{c.extension}
		}
		err := f.Check(h)
		testkit.Holds(t, (c.text != "" || err == nil) &&
			(c.text == "" || err != nil && strings.Contains(err.Error(), c.text)), c.required, "extension", c.extension, err)
		_, other := f.Executor(*h)
		testkit.Equal(t, other == nil, err == nil, c.required, "Check says", err, "and Executor", other)
		testkit.Equal(t, strings.HasPrefix(c.text, "it requires"), errors.Is(err, ErrNotGranted), c.required, err)
	}
	testkit.Fails(NewPool(Settings{Sandbox: f.settings.Sandbox, Dir: t.TempDir(), Grants: []string{"all"}}))(t)
}

// extensions returns a directory with copies of the extension fib under the given file names.
func extensions(t testing.TB, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), guestFile(t, "fib"), 0o600))
	}
	return dir
}

// TestExtensions: a guest with the permission can import an extension by its name.
func TestExtensions(t *testing.T) {
	f := newFixture(t, func(s *Settings) {
		s.Grants, s.Extensions = []string{"extension:*"}, extensions(t, "fib.WASM", "other.wasm", "no.txt")
	})
	testkit.EqualSlices(t, f.Extensions(), []string{"fib", "other"}, "the extensions")
	for _, permission := range []string{"extension:fib", "extension:*"} {
		x := f.handler("usesfib", handler.Options{}, permission)
		for range 2 { // each run has its own instance
			wantEnd(t, f.text(x, ""), "error", "exit status 55")
		}
	}
	t.Run("no permission", func(t *testing.T) {
		wantEnd(t, f.text(f.handler("usesfib", handler.Options{}, "extension:other"), ""), "unable", `it imports the module "fib"`, "extension:fib")
	})
	t.Run("no extension", func(t *testing.T) {
		f := newFixture(t, func(s *Settings) { s.Grants = []string{"extension:*"} })
		wantEnd(t, f.text(f.handler("usesfib", handler.Options{}, "extension:fib"), ""), "unable", `"fib", which this runner does not have`)
	})
	t.Run("of a binary that the job names", func(t *testing.T) {
		binary := guestFile(t, "usesfib")
		own := f.blobs.add("c", binary)
		j := &client.Job{Client: "c", BinaryAddr: own}
		wantEnd(t, f.run(f.executor(Handler{}), j), "failed", `"fib"`)
		wantEnd(t, f.run(f.handler("kit", handler.Options{}, "extension:fib"), j), "failed", `"fib"`)
		wantEnd(t, f.run(f.handler("usesfib", handler.Options{}, "extension:fib"), j), "error", "exit status 55")
		j.BinaryAddr = addresses(binary)[3]
		wantEnd(t, f.run(f.handler("usesfib", handler.Options{}, "extension:fib"), j), "error", "exit status 55")
	})
	for name, names := range map[string][]string{
		"two with one name": {"fib.wasm", "fib.WASM"}, "name of the runner": {"serval.wasm"}, "name of WASI": {"wasi_snapshot_preview1.wasm"}, "no name": {"a b.wasm"},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := NewPool(Settings{Sandbox: f.settings.Sandbox, Dir: t.TempDir(), Extensions: extensions(t, names...)}); err == nil {
				p.Close()
				t.Error("the directory is accepted")
			}
		})
	}
	t.Run("no directory", func(t *testing.T) {
		if p, err := NewPool(Settings{Sandbox: f.settings.Sandbox, Dir: t.TempDir(), Extensions: filepath.Join(t.TempDir(), "none")}); err == nil {
			p.Close()
			t.Error("a directory that is not there is accepted")
		}
	})
}

// TestProc: a guest with the permission can read /proc, except for files with more than figures.
func TestProc(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this machine has no /proc")
	}
	f := newFixture(t, func(s *Settings) { s.Grants = []string{"proc:read:*"} })
	with := f.handler("kit", handler.Options{}, "proc:read:*")
	for _, path := range []string{"/proc/meminfo", "/proc/self/stat", "/proc/loadavg"} {
		e := f.text(with, "read "+path)
		testkit.Holds(t, e.Code == "ok" && len(e.Output) != 0, path, show(e))
	}
	for _, path := range []string{
		"/proc/self/mem", "/proc/self/environ", "/proc/self/cmdline", "/proc/cmdline", "/proc/self/maps", "/proc/self/fd/0", "/proc/self/root/etc/passwd", "/proc/self/cwd/x", "/proc/self/task/1/mem",
		"/proc/1/environ", "/proc/thread-self/mem", "/proc/kcore", "/proc/kmsg", "/proc/../etc/passwd", "/etc/passwd", "/proc/self/../self/environ",
	} {
		e := f.text(with, "read "+path)
		testkit.Holds(t, e.Code == "error" && len(e.Output) == 0, path, show(e))
	}
	wantEnd(t, f.text(f.handler("kit", handler.Options{}), "read /proc/meminfo"), "error", "/proc/meminfo")
}

// TestServal: the host module serval works.
func TestServal(t *testing.T) {
	f := newFixture(t, nil)
	x := f.handler("serval", handler.Options{})
	wantOK(t, f.text(x, "add\n"), "42")
	wantOK(t, f.text(x, "fibonacci\n10"), `{"error":"there is no function \"fibonacci\""}`)
	wantOK(t, f.text(x, "\xff\n10"), `{"error":"there is no function \"\\xff\""}`)
	wantOK(t, f.text(x, "http\n{}"), `{"error":"the handler has no permission for HTTP requests (http:HOST)"}`)
	wantOK(t, f.text(x, "bad name\n"), "-2")
	wantOK(t, f.text(x, "bad data\n"), "-3")
	wantEnd(t, f.text(f.handler("nomemory", handler.Options{}), ""), "error", "exit status 1")
	wantEnd(t, f.text(f.handler("noalloc", handler.Options{}), ""), "error", "exit status 4")
}

// TestHTTP: guests can send requests only with a permission, and only to allowed addresses.
func TestHTTP(t *testing.T) {
	var seen *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		switch r.URL.Path {
		case "/echo":
			w.Header().Set("X-Method", r.Method)
			b := make([]byte, 100)
			n, _ := r.Body.Read(b)
			w.WriteHeader(http.StatusTeapot)
			w.Write(b[:n])
		case "/redirect":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/large":
			w.Write(make([]byte, maxBodyBytes+1))
		case "/hang":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	local := "http://localhost" + port
	f := newFixture(t, func(s *Settings) {
		s.Grants = []string{"http:*"}
		s.Allow = testkit.Must(webhook.ParseAllow([]string{"localhost" + port}))(t)
	})
	x := f.handler("serval", handler.Options{}, "http:localhost", "http:127.0.0.1")
	ask := func(request string) string {
		t.Helper()
		e := f.text(x, "http\n"+request)
		testkit.MustEqual(t, e.Code, "ok", show(e))
		return string(e.Output)
	}
	answer := ask(fmt.Sprintf(`{"method":"put","url":"%s/echo","headers":{"X-Own":"1"},"body":"hello"}`, local))
	for _, part := range []string{`"status":418`, `"x-method":"PUT"`, `"body":"hello"`} {
		testkit.Contains(t, answer, part)
	}
	testkit.Holds(t, seen.Header.Get("X-Own") == "1" && seen.Header.Get("User-Agent") == "Daybook", "the request has the headers", seen.Header)
	answer = ask(fmt.Sprintf(`{"method":"POST","url":"%s/echo","body_b64":"%s"}`, local, base64.StdEncoding.EncodeToString([]byte{0xff, 1})))
	testkit.Holds(t, strings.Contains(answer, `"body_b64":"/wE="`), "the answer is", answer)
	testkit.Contains(t, ask(fmt.Sprintf(`{"url":"%s/redirect?to=/echo"}`, local)), `"status":418`)
	for _, c := range []struct{ name, request, text string }{
		{"host without permission", `{"url":"http://example.com/"}`, "no permission for requests to example.com (http:example.com)"},
		{"redirect to a host without permission", `{"url":"LOCAL/redirect?to=http://example.com/"}`, "no permission for requests to example.com"},
		{"redirect to another scheme", `{"url":"LOCAL/redirect?to=ftp://localhost/"}`, "http or https"},
		{"address that is not allowed", `{"url":"http://127.0.0.1` + port + `/echo"}`, "loopback address"},
		{"redirect to an address that is not allowed", `{"url":"LOCAL/redirect?to=http://127.0.0.1` + port + `/echo"}`, "loopback address"},
		{"too many redirects", `{"url":"LOCAL/loop"}`, "redirects"},
		{"large answer", `{"url":"LOCAL/large"}`, "more than 8388608 bytes"},
		{"user", `{"url":"http://a:b@localhost/"}`, "user or password"},
		{"no URL", `{"url":"/etc/passwd"}`, "http or https and a host"},
		{"file", `{"url":"file:///etc/passwd"}`, "http or https and a host"},
		{"no JSON", `hello`, "not JSON"},
		{"unknown field", `{"url":"LOCAL/echo","timeout":1}`, "not JSON with"},
		{"header of the connection", `{"url":"LOCAL/echo","headers":{"host":"example.com"}}`, "cannot be set"},
		{"line break in a header", `{"url":"LOCAL/echo","headers":{"X-A":"1\nX-B: 2"}}`, "header"},
		{"method", `{"method":"A B","url":"LOCAL/echo"}`, "method"},
		{"CONNECT", `{"method":"CONNECT","url":"LOCAL/echo"}`, "CONNECT"},
		{"two bodies", `{"method":"POST","url":"LOCAL/echo","body":"a","body_b64":"YQ=="}`, "together"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if answer := ask(strings.ReplaceAll(c.request, "LOCAL", local)); !strings.HasPrefix(answer, `{"error":`) || !strings.Contains(answer, c.text) {
				t.Errorf("the answer is %s, want an error with %q", answer, c.text)
			}
		})
	}
	t.Run("time-out during a request", func(t *testing.T) {
		x := f.handler("serval", handler.Options{TimeoutMs: 300}, "http:*")
		wantEnd(t, f.text(x, fmt.Sprintf("http\n"+`{"url":"%s/hang"}`, local)), "error", "options.timeout_ms, 300 ms")
	})
}

// TestExampleOfHTTP: the request, answer and error on docs/reference/wasi.md match the function http.
func TestExampleOfHTTP(t *testing.T) {
	text := testkit.Must(os.ReadFile("../../docs/reference/wasi.md"))(t)
	examples := regexp.MustCompile("(?s)TestExampleOfHTTP -->\n\n```json\n(.*?)\n```").FindAllStringSubmatch(string(text), -1)
	testkit.MustEqual(t, len(examples), 3, "the page", "examples")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		io.Copy(w, r.Body)
	}))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	f := newFixture(t, func(s *Settings) {
		s.Grants = []string{"http:*"}
		s.Allow = testkit.Must(webhook.ParseAllow([]string{"localhost" + port}))(t)
	})
	x := f.handler("serval", handler.Options{}, "http:localhost")
	for _, c := range []struct{ request, want string }{
		{strings.ReplaceAll(examples[0][1], "https://example.com", "http://localhost"+port), examples[1][1]},
		{`{"url":"https://example.org/"}`, examples[2][1]},
	} {
		var got, want map[string]any
		testkit.NoError(t, json.Unmarshal(f.text(x, "http\n"+c.request).Output, &got))
		testkit.NoError(t, json.Unmarshal([]byte(c.want), &want))
		if headers, ok := got["headers"].(map[string]any); ok {
			delete(headers, "content-length")
		}
		testkit.DeepEqual(t, got, want, c.request, "is answered with", "and the page says")
	}
}
