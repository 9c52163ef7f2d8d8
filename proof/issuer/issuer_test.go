package issuer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/oauth2"
)

// must returns a value, or ends the test.
func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// host is where the issuer and the server listen: two sites of one host, whose cookies have different names.
const host = "localhost"

// issuer is the issuer. A stopped one can be started again at the same address, and then has another signing key.
type issuer struct {
	url, callback string
	stop          func()
}

// start starts the issuer, with a client for the server's log-in, and one for programs.
func (i *issuer) start(t *testing.T) {
	t.Helper()
	l := must(net.Listen("tcp", strings.TrimPrefix(i.url, "http://")))(t)
	storage.RegisterClients(storage.WebClient("web", "s3cret", i.callback), storage.WebClient("other", "s3cret", i.callback))
	log := slog.Default()
	router := exampleop.SetupServer(i.url, storage.NewStorage(storage.NewUserStore(i.url)), nil, false, op.WithAllowInsecure())
	slog.SetDefault(log)
	s := &http.Server{Handler: router}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	stopped := false
	i.stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
	t.Cleanup(i.stop)
}

// free returns an address on which nothing listens.
func free(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", host+":0"))(t)
	defer l.Close()
	return fmt.Sprintf("%s:%d", host, l.Addr().(*net.TCPAddr).Port)
}

// serve starts the server, and returns when it listens.
func serve(t *testing.T, address, oidcFile string) {
	t.Helper()
	binary := os.Getenv("DAYBOOK_BINARY")
	if binary == "" {
		t.Fatal("DAYBOOK_BINARY is not set; run `make check PART=issuer`")
	}
	cmd := exec.Command(binary, "serve", "--listen", address, "--data", filepath.Join(t.TempDir(), "data"), "--init", "--oidc-file", oidcFile)
	cmd.Stderr = t.Output()
	out := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	if line := must(bufio.NewReader(out).ReadString('\n'))(t); !strings.HasPrefix(line, "listening on ") {
		t.Fatal(line)
	}
}

// browser is a browser. It follows redirects, and keeps cookies.
func browser(t *testing.T) *http.Client { return &http.Client{Jar: must(cookiejar.New(nil))(t)} }

// page is an answer.
type page struct {
	status int
	body   string
	at     *url.URL
}

func open(t *testing.T, b *http.Client, req *http.Request) page {
	t.Helper()
	res := must(b.Do(req))(t)
	defer res.Body.Close()
	return page{res.StatusCode, string(must(io.ReadAll(res.Body))(t)), res.Request.URL}
}

func get(t *testing.T, b *http.Client, address string, headers ...string) page {
	t.Helper()
	req := must(http.NewRequest(http.MethodGet, address, nil))(t)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return open(t, b, req)
}

// enter enters the name and the password of a user at the issuer, to whose page an address leads.
func (i *issuer) enter(t *testing.T, b *http.Client, address string) page {
	t.Helper()
	form := get(t, b, address)
	id := form.at.Query().Get("authRequestID")
	if id == "" {
		t.Fatalf("%v shows no form: %s", form.at, form.body)
	}
	values := url.Values{"username": {"test-user@" + host}, "password": {"verysecure"}, "id": {id}}
	req := must(http.NewRequest(http.MethodPost, i.url+"/login/username", strings.NewReader(values.Encode())))(t)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return open(t, b, req)
}

// token returns an ID token of a program, which logs in by itself, for the audience that is the program's name.
func (i *issuer) token(t *testing.T, client string) string {
	t.Helper()
	b := browser(t)
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), i.callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	var at struct {
		Auth  string `json:"authorization_endpoint"`
		Token string `json:"token_endpoint"`
	}
	if err := json.Unmarshal([]byte(get(t, b, i.url+"/.well-known/openid-configuration").body), &at); err != nil {
		t.Fatal(err)
	}
	c := oauth2.Config{ClientID: client, ClientSecret: "s3cret", RedirectURL: i.callback, Scopes: []string{"openid"}, Endpoint: oauth2.Endpoint{AuthURL: at.Auth, TokenURL: at.Token}}
	verifier := oauth2.GenerateVerifier()
	form := get(t, b, c.AuthCodeURL("x", oauth2.S256ChallengeOption(verifier)))
	id := form.at.Query().Get("authRequestID")
	if id == "" {
		t.Fatalf("%v shows no form: %s", form.at, form.body)
	}
	values := url.Values{"username": {"test-user@" + host}, "password": {"verysecure"}, "id": {id}}
	res := must(b.PostForm(i.url+"/login/username", values))(t)
	defer res.Body.Close()
	back := must(res.Location())(t)
	got := must(c.Exchange(context.Background(), back.Query().Get("code"), oauth2.VerifierOption(verifier)))(t)
	text, _ := got.Extra("id_token").(string)
	if strings.Count(text, ".") != 2 {
		t.Fatalf("the issuer sends no ID token: %q", text)
	}
	return text
}

// code returns the code of a problem.
func (p page) code(t *testing.T) string {
	t.Helper()
	var problem struct{ Code string }
	_ = json.Unmarshal([]byte(p.body), &problem)
	return fmt.Sprint(p.status, " ", problem.Code)
}

// until asks until an answer is as wanted. The server asks a new issuer every second, and an old one every ten seconds.
func until(t *testing.T, want string, ask func() page) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for range 300 {
		if last = ask().code(t); last == want {
			return
		}
		<-tick.C
	}
	t.Fatalf("the answer remains %q, and %q is wanted", last, want)
}

// TestIssuer: a person logs in at the issuer, and a program uses its token. The server starts without the issuer, and accepts its
// next signing key.
func TestIssuer(t *testing.T) {
	address := free(t)
	server := "http://" + address
	i := &issuer{url: "http://" + free(t), callback: server + "/login/callback"}
	dir := t.TempDir()
	for name, text := range map[string]string{"secret": "s3cret\n", "oidc.toml": `
[[issuer]]
name = "zitadel"
url = "` + i.url + `"
audience = "web"
client-id = "web"
client-secret-file = "secret"
redirect-url = "` + i.callback + `"
scopes = ["openid", "profile"]

[[issuer.rule]]
name = "the-user"
claims = { sub = "id1" }
roles = ["producer"]
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, address, filepath.Join(dir, "oidc.toml"))
	plain := browser(t)
	if got := get(t, plain, server+"/readyz"); got.status != http.StatusOK {
		t.Fatalf("without the issuer, the server is not ready: %+v", got)
	}
	if got := get(t, plain, server+"/login").code(t); got != "503 issuer_unavailable" {
		t.Errorf("without the issuer, /login is answered with %s", got)
	}
	i.start(t)
	until(t, "200 ", func() page { return get(t, browser(t), server+"/login") }) // the form of the issuer

	// A person.
	b := browser(t)
	got := i.enter(t, b, server+"/login?next=/jobs%3Fstatus%3Dpending")
	if got.status != http.StatusOK || got.at.Path != "/login/callback" || !strings.Contains(got.body, `content="0;url=/jobs?status=pending"`) {
		t.Fatalf("a person who comes back gets %d at %v: %s", got.status, got.at, got.body)
	}
	if again := get(t, b, got.at.String()).code(t); again != "401 login_failed" {
		t.Errorf("the address of a log-in is good twice: %s", again)
	}
	var who struct{ Name, CSRF string }
	me := get(t, b, server+"/whoami")
	if err := json.Unmarshal([]byte(me.body), &who); err != nil || who.Name != "oidc/zitadel/id1" || who.CSRF == "" {
		t.Fatalf("the person is %s, %v", me.body, err)
	}
	change := func(path, csrf string) string {
		req := must(http.NewRequest(http.MethodPost, server+path, strings.NewReader("{}")))(t)
		req.Header.Set("Content-Type", "application/json")
		if csrf != "" {
			req.Header.Set("Daybook-CSRF", csrf)
		}
		return open(t, b, req).code(t)
	}
	for csrf, want := range map[string]string{"": "403 csrf_required", who.CSRF: "201 "} {
		if got := change("/jobs/create", csrf); got != want {
			t.Errorf("a change with the token %q is answered with %s", csrf, got)
		}
	}
	if got := get(t, b, server+"/keys").code(t); got != "403 role_missing" {
		t.Errorf("a producer lists keys: %s", got)
	}
	if got := change("/logout", who.CSRF); got != "204 " {
		t.Errorf("a logout is answered with %s", got)
	}
	if got := get(t, b, server+"/whoami").code(t); got != "401 key_required" {
		t.Errorf("after a logout, the browser still sends a cookie: %s", got)
	}
	stolen := i.enter(t, browser(t), server+"/login") // and a browser that did not begin it
	if got := get(t, browser(t), server+"/login/callback?"+stolen.at.RawQuery).code(t); got != "401 login_failed" {
		t.Errorf("another browser ends a log-in: %s", got)
	}

	// A program.
	as := func(token string) page { return get(t, plain, server+"/jobs", "Authorization", "Bearer "+token) }
	token := i.token(t, "web")
	parts := strings.Split(token, ".")
	for name, c := range map[string]struct{ token, want string }{
		"good":              {token, "200 "},
		"for another":       {i.token(t, "other"), "401 token_refused"},
		"changed signature": {parts[0] + "." + parts[1] + "." + regexp.MustCompile(`^.....`).ReplaceAllString(parts[2], "AAAAA"), "401 token_refused"},
		"no signature":      {parts[0] + "." + parts[1] + ".", "401 token_refused"},
		"algorithm none":    {"eyJhbGciOiJub25lIn0." + parts[1] + ".", "401 token_refused"},
		"algorithm HS256":   {"eyJhbGciOiJIUzI1NiJ9." + parts[1] + "." + parts[2], "401 token_refused"},
	} {
		if got := as(c.token).code(t); got != c.want {
			t.Errorf("a token that is %s is answered with %s, not %s", name, got, c.want)
		}
	}

	// The next signing key, after the issuer was away.
	i.stop()
	if got := as(token).code(t); got != "200 " {
		t.Errorf("without the issuer, a good token is answered with %s", got)
	}
	i.start(t)
	next := i.token(t, "web")
	until(t, "200 ", func() page { return as(next) })
}
