package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// cookieOf returns the cookie that an answer sets, as a browser sends it.
func cookieOf(a reply) string {
	name, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return name
}

// browser is a browser that has logged in with a key.
type browser struct {
	*rig
	cookie, csrf string
}

// logIn logs in with a key.
func (r *rig) logIn(key string, headers ...string) *browser {
	r.Helper()
	a := r.post("/login", `{"key":"`+key+`"}`, headers...)
	b := &browser{rig: r, csrf: a.object(http.StatusOK)["csrf"].(string), cookie: cookieOf(a)}
	testkit.Equal(r, a.header.Get("Cache-Control"), "no-store")
	return b
}

func (b *browser) get(path string, headers ...string) reply {
	b.Helper()
	return b.rig.get(path, append([]string{"Cookie", b.cookie}, headers...)...)
}

// change sends a change with the token.
func (b *browser) change(method, path, body string, headers ...string) reply {
	b.Helper()
	return b.do(method, path, strings.NewReader(body), append([]string{"Content-Type", "application/json", "Cookie", b.cookie, "Daybook-CSRF", b.csrf}, headers...)...)
}

// TestLogins: a login stands for its key, as it is now, until it ends. Its changes need the token, and its cookie is not for scripts
// and other sites.
func TestLogins(t *testing.T) {
	r := start(t)
	r.post("/login", `{"key":"x"}`).refused(http.StatusUnauthorized, "key_refused")
	admin := r.newKey("", "boss", "admin")
	producer := r.newKey(admin, "p", "producer")
	r.post("/login", `{}`).wrong("key")
	r.post("/login", `{"key":"`+job.KeyText("p", [job.SecretBytes]byte{})+`"}`).refused(http.StatusUnauthorized, "key_refused")

	a := r.post("/login", `{"key":"`+producer+`"}`)
	testkit.Equal(t, a.header.Get("Set-Cookie"), cookieOf(a)+"; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")
	testkit.Holds(t, strings.HasPrefix(cookieOf(a), "daybook=") && !strings.Contains(a.body, cookieOf(a)[len("daybook="):]), cookieOf(a), a.body)
	b := r.logIn(producer)
	who := b.get("/whoami").object(http.StatusOK)
	testkit.Equal(t, who["name"], any("p"))
	testkit.Equal(t, who["csrf"], any(b.csrf))
	until := testkit.Must(who["expires_at"].(json.Number).Int64())(t)
	testkit.Holds(t, until > r.engine.Now()+job.MaxLoginMs-60_000 && until <= r.engine.Now()+job.MaxLoginMs, until)
	testkit.Equal(t, r.get("/whoami", as(producer)...).object(http.StatusOK)["csrf"], nil)

	b.get("/jobs").object(http.StatusOK)
	b.get("/keys").refused(http.StatusForbidden, "role_missing")
	for _, headers := range [][]string{nil, {"Daybook-CSRF", ""}, {"Daybook-CSRF", b.csrf[1:]}, {"Daybook-CSRF", r.logIn(producer).csrf}, {"Daybook-CSRF", b.csrf, "Daybook-CSRF", b.csrf}} {
		r.post("/jobs/create", `{}`, append([]string{"Cookie", b.cookie}, headers...)...).refused(http.StatusForbidden, "csrf_required")
	}
	b.change(http.MethodPost, "/jobs/create", `{}`).object(http.StatusCreated)

	// A header counts alone, and two cookies are refused.
	b.get("/jobs", as("x")...).refused(http.StatusUnauthorized, "key_refused")
	testkit.Equal(t, b.get("/whoami", as(admin)...).object(http.StatusOK)["name"], any("boss"))
	testkit.Equal(t, b.get("/whoami", as(admin)...).object(http.StatusOK)["csrf"], nil)
	r.get("/jobs", "Cookie", b.cookie+"; "+r.logIn(producer).cookie).refused(http.StatusUnauthorized, "login_ended")
	r.get("/jobs", "Cookie", b.cookie+"; "+b.cookie).refused(http.StatusUnauthorized, "login_ended")
	for _, wrong := range []string{"daybook=x", "daybook=" + strings.Repeat("0", job.LoginTextBytes), b.cookie + "0", "daybook=" + producer} {
		r.get("/jobs", "Cookie", wrong).refused(http.StatusUnauthorized, "login_ended")
	}
	r.get("/jobs", "Cookie", "__Host-"+b.cookie).refused(http.StatusUnauthorized, "key_required") // on loopback without TLS
	r.get("/jobs", "Cookie", "other=1; "+b.cookie).object(http.StatusOK)
	name, _ := job.LoginNameOf(b.cookie[len("daybook="):])
	r.get("/jobs", "Cookie", "daybook="+string(name[:])).refused(http.StatusUnauthorized, "login_ended") // a backup has it

	// The end: of the login, of the secret, of the key.
	other := r.logIn(producer)
	out := other.change(http.MethodPost, "/logout", "")
	out.wantStatus(http.StatusNoContent)
	testkit.Contains(t, out.header.Get("Set-Cookie"), "daybook=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
	other.get("/jobs").refused(http.StatusUnauthorized, "login_ended")
	other.change(http.MethodPost, "/logout", "").refused(http.StatusUnauthorized, "login_ended")
	b.get("/jobs").object(http.StatusOK)
	rotated := r.post("/keys/p/rotate", `{"overlap_ms":60000}`, as(admin)...).object(http.StatusOK)["key"].(string)
	b.get("/jobs").refused(http.StatusUnauthorized, "login_ended")
	b = r.logIn(rotated)
	testkit.Equal(t, r.do(http.MethodDelete, "/keys/p", nil, as(admin)...).status, http.StatusNoContent)
	b.get("/jobs").refused(http.StatusUnauthorized, "login_ended")
	r.newKey(admin, "p", "admin")
	b.get("/jobs").refused(http.StatusUnauthorized, "login_ended") // another key with the name is not that key

	// No list and no log has logins.
	testkit.Holds(t, !strings.Contains(r.get("/keys", as(admin)...).body, string(name[:])), "the list of keys has a login")
}

// TestLoginsOfScopes: the login of a key for some clients is for these clients, too, and can end.
func TestLoginsOfScopes(t *testing.T) {
	r := start(t)
	admin := r.newKey("", "boss", "admin")
	text := r.post("/keys", `{"name":"shop","roles":["producer"],"clients":["shop"]}`, as(admin)...).object(http.StatusCreated)["key"].(string)
	b := r.logIn(text)
	who := b.get("/whoami").object(http.StatusOK)
	testkit.Equal(t, who["clients"].([]any)[0], any("shop"))
	b.change(http.MethodPost, "/jobs/create", `{"client":"shop"}`).object(http.StatusCreated)
	b.change(http.MethodPost, "/jobs/create", `{"client":"other"}`).refused(http.StatusForbidden, "out_of_scope")
	b.change(http.MethodPost, "/logout", "").wantStatus(http.StatusNoContent)
	b.get("/jobs").refused(http.StatusUnauthorized, "login_ended")
}

// TestLoginsBeyondLoopback: at any other host, the cookie is for TLS and for this host only.
func TestLoginsBeyondLoopback(t *testing.T) {
	r := start(t, func(s *setup) { s.Hosts = []string{"queue.example"} })
	key := r.newKey("", "boss", "admin")
	at := []string{"Host", "queue.example"}
	a := r.post("/login", `{"key":"`+key+`"}`, at...)
	testkit.Equal(t, a.header.Get("Set-Cookie"), cookieOf(a)+"; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict")
	testkit.Holds(t, strings.HasPrefix(cookieOf(a), "__Host-daybook="), cookieOf(a))
	r.get("/jobs", append(at, "Cookie", cookieOf(a))...).object(http.StatusOK)
	r.get("/jobs", append(at, "Cookie", strings.TrimPrefix(cookieOf(a), "__Host-"))...).refused(http.StatusUnauthorized, "key_required")
	for host, prefixed := range map[string]bool{"localhost": false, "127.0.0.2:1717": false, "[::1]:1717": false, "192.0.2.1": true, "localhost.": false} {
		c := cookieOf(r.post("/login", `{"key":"`+key+`"}`, "Host", host))
		testkit.Equal(t, strings.HasPrefix(c, "__Host-"), prefixed, host)
	}
}

// TestLoginsElsewhere: a login is in the store, so another server of it, after a restart or at another node, accepts it, and its end.
func TestLoginsElsewhere(t *testing.T) {
	r := start(t)
	key := r.newKey("", "boss", "admin")
	kept, ended := r.logIn(key), r.logIn(key)
	ended.change(http.MethodPost, "/logout", "").wantStatus(http.StatusNoContent)
	again := startOn(t, setup{engine: r.engine})
	again.get("/jobs", "Cookie", kept.cookie).object(http.StatusOK)
	again.get("/jobs", "Cookie", ended.cookie).refused(http.StatusUnauthorized, "login_ended")
}

// TestLoginsAreBounded: the first logins of a key end when it has too many.
func TestLoginsAreBounded(t *testing.T) {
	r := start(t)
	key := r.newKey("", "boss", "admin")
	other := r.logIn(r.newKey(key, "other", "reader"))
	var all []*browser
	for range job.MaxLoginsOfOne + 2 {
		all = append(all, r.logIn(key))
	}
	open := 0
	for _, b := range all {
		if b.rig.get("/jobs", "Cookie", b.cookie).status == http.StatusOK {
			open++
		}
	}
	testkit.Equal(t, open, job.MaxLoginsOfOne)
	all[len(all)-1].get("/jobs").object(http.StatusOK)
	other.get("/jobs").object(http.StatusOK)
}

// TestLoginsOfStreams: a page of this server opens a stream with a login. Anything else needs the token, and a logout ends the stream.
func TestLoginsOfStreams(t *testing.T) {
	r := start(t, func(s *setup) { s.GetSwitches = true })
	b := r.logIn(r.newKey("", "boss", "admin"))
	dial := func(headers ...string) int {
		h := http.Header{"Cookie": {b.cookie}}
		for i := 0; i < len(headers); i += 2 {
			h.Add(headers[i], headers[i+1])
		}
		c, res, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+"/stream", &websocket.DialOptions{HTTPHeader: h, Subprotocols: []string{"daybook.v1"}})
		if err == nil {
			_ = c.CloseNow()
		}
		return res.StatusCode
	}
	testkit.Equal(t, dial(), http.StatusForbidden)
	testkit.Equal(t, dial("Origin", "http://evil.example"), http.StatusForbidden)
	testkit.Equal(t, dial("Origin", "null"), http.StatusForbidden)
	testkit.Equal(t, dial("Daybook-CSRF", b.csrf), http.StatusSwitchingProtocols)
	testkit.Equal(t, dial("Origin", r.url), http.StatusSwitchingProtocols)
	b.get("/stop").refused(http.StatusForbidden, "csrf_required")
	b.rig.do(http.MethodHead, "/stop", nil, "Cookie", b.cookie).wantStatus(http.StatusMethodNotAllowed)
	b.get("/stop", "Daybook-CSRF", b.csrf).object(http.StatusOK)

	s := r.open(func(o *websocket.DialOptions) { o.HTTPHeader = http.Header{"Cookie": {b.cookie}, "Origin": {r.url}} })
	s.ok(s.send("hello", `{"runner_id":"r1"}`))
	b.change(http.MethodPost, "/logout", "").wantStatus(http.StatusNoContent)
	_, _, err := s.conn.Read(t.Context())
	for err == nil {
		_, _, err = s.conn.Read(t.Context())
	}
}

// TestAllowedOrigins: pages of --allow-origin use the server with keys, and never with cookies. All others are refused as before.
func TestAllowedOrigins(t *testing.T) {
	const page = "https://board.example"
	r := start(t, func(s *setup) { s.Origins = []string{page, "http://localhost:3000"} })
	key := r.newKey("", "boss", "admin")
	b := r.logIn(key)
	cross := []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}

	a := r.get("/jobs", append(as(key), cross...)...)
	a.object(http.StatusOK)
	testkit.Equal(t, a.header.Get("Access-Control-Allow-Origin"), page)
	testkit.Equal(t, slices.Contains(a.header.Values("Vary"), "Origin"), true, a.header)
	testkit.Contains(t, a.header.Get("Access-Control-Expose-Headers"), "Daybook-Seq", "Retry-After", "ETag", "Location")
	testkit.Equal(t, a.header.Get("Access-Control-Allow-Credentials"), "")
	refused := r.get("/jobs", cross...)
	refused.refused(http.StatusUnauthorized, "key_required")
	testkit.Equal(t, refused.header.Get("Access-Control-Allow-Origin"), page) // so that the page can read why
	b.get("/jobs", cross...).refused(http.StatusUnauthorized, "key_required")
	b.change(http.MethodPost, "/jobs/create", `{}`, cross...).refused(http.StatusUnauthorized, "key_required")

	r.post("/login", `{"key":"`+key+`"}`, cross...).refused(http.StatusForbidden, "forbidden_origin")

	ask := []string{"Access-Control-Request-Method", "DELETE", "Access-Control-Request-Headers", "authorization,content-type"}
	pre := r.do(http.MethodOptions, "/jobs/create", nil, append(ask, cross...)...)
	pre.wantStatus(http.StatusNoContent)
	testkit.Contains(t, pre.header.Get("Access-Control-Allow-Headers"), "Authorization", "Content-Type", "Idempotency-Key")
	testkit.Contains(t, pre.header.Get("Access-Control-Allow-Methods"), "DELETE")
	testkit.Equal(t, pre.header.Get("Access-Control-Allow-Origin"), page)
	testkit.Equal(t, pre.header.Get("Access-Control-Allow-Credentials"), "")
	r.do(http.MethodOptions, "/jobs/create", nil, append(ask, "Origin", "https://evil.example")...).refused(http.StatusForbidden, "forbidden_origin")
	for _, origin := range []string{"https://board.example.evil.example", "http://board.example", "https://board.example:444", "null", "HTTPS://board.example", ""} {
		a := r.get("/jobs", append(as(key), "Origin", origin)...)
		a.refused(http.StatusForbidden, "forbidden_origin")
		testkit.Equal(t, a.header.Get("Access-Control-Allow-Origin"), "")
	}
	r.get("/jobs", append(as(key), "Origin", page, "Origin", page)...).refused(http.StatusForbidden, "forbidden_origin")
	r.get("/jobs", append(as(key), "Sec-Fetch-Site", "cross-site")...).refused(http.StatusForbidden, "forbidden_origin")

	for _, wrong := range []string{"*", "board.example", "https://board.example/", "https://Board.example", "ftp://a", "https://a:443", "http://a:80", "null", "https://", "https://u@a", "https://*.a", "https://a:"} {
		testkit.Fails(web.New(web.Options{Origins: []string{wrong}}))(t, "--allow-origin")
	}
}

// TestReturnPassesTheGuard: only a whole page may come from another site to the end of a log-in.
func TestReturnPassesTheGuard(t *testing.T) {
	r := start(t)
	navigation := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	r.get("/login/callback", navigation...).refused(http.StatusNotFound, "no_issuer")
	r.get("/login", navigation...).refused(http.StatusForbidden, "forbidden_origin")
	r.get("/jobs", navigation...).refused(http.StatusForbidden, "forbidden_origin")
	r.do(http.MethodHead, "/login/callback", nil, navigation...).wantStatus(http.StatusForbidden)
	r.get("/login/callback", append(slices.Clone(navigation), "Origin", "https://issuer.example")...).refused(http.StatusForbidden, "forbidden_origin")
	for i, other := range map[int]string{3: "cors", 5: "iframe"} {
		wrong := slices.Clone(navigation)
		wrong[i] = other
		r.get("/login/callback", wrong...).refused(http.StatusForbidden, "forbidden_origin")
	}
	r.get("/login/callback", "Sec-Fetch-Site", "cross-site").refused(http.StatusForbidden, "forbidden_origin")
}

// failing is an engine with a key and a login that cannot store anything.
type failing struct {
	withKey
	login *job.Login
	err   error
}

func (f *failing) Login([]byte) *job.Login { return f.login }
func (f *failing) LoginsOf(string, int64) (own, ended []*job.Login) {
	return nil, nil
}
func (f *failing) PutDocument(context.Context, job.PutDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	return applied.DocumentChanged{}, ingest.Receipt{}, f.err
}
func (f *failing) DeleteDocument(context.Context, job.DeleteDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	return applied.DocumentChanged{}, ingest.Receipt{}, f.err
}

// TestLoginsWithoutStorage: a login that cannot be stored or ended is refused with the reason, and sets no cookie.
func TestLoginsWithoutStorage(t *testing.T) {
	text := job.KeyText("k", [job.SecretBytes]byte{7})
	_, sum, err := job.ParseKeyText(text)
	testkit.NoError(t, err)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{job.TooManyLogins, 429, "too_many_logins"}, {ingest.ErrDiskFull, 507, "disk_full"}, {ingest.ErrWritesFailed, 503, "writes_failed"}, {errors.New("broken"), 500, "internal"},
	} {
		engine := &failing{withKey: withKey{key: &job.Key{Actor: job.Actor{Name: "k"}, Roles: admins, Sum: sum}}, login: &job.Login{By: "k", Until: 10, KeySum: sum}, err: c.err}
		s := testkit.Must(newServer(Options{}, engine))(t)
		ask := func(path, body string, headers ...string) reply {
			req := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
			for i := 0; i < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(patient{w}, req)
			return reply{t, path, w.Code, w.Header(), w.Body.String()}
		}
		a := ask("/login", `{"key":"`+text+`"}`, "Content-Type", "application/json")
		a.refused(c.status, c.code)
		testkit.Equal(t, a.header.Get("Set-Cookie"), "")
		secret := strings.Repeat("0", job.LoginTextBytes)
		ask("/logout", "", "Cookie", "daybook="+secret, "Daybook-CSRF", web.TokenOf(secret)).refused(c.status, c.code)
	}
}
