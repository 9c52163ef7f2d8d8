package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/api/oidc/oidctest"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// corp is the configuration of the issuer of tests: members of ops are operators, and of root admins.
func corp() oidc.Issuer {
	return oidc.Issuer{
		Name: "corp", URL: oidctest.URL, Audience: "daybook",
		Login: &oidc.Login{ClientID: "daybook-web", Secret: "s3cret", Redirect: "http://localhost/login/callback", Scopes: []string{"openid"}},
		Rules: []oidc.Rule{
			{Name: "roots", Claims: map[string]any{"groups": "root"}, Key: job.Key{Roles: admins}},
			{Name: "operators", Claims: map[string]any{"groups": "ops"}, Key: job.Key{Roles: job.RolesOf(job.RoleOperator)}},
		},
	}
}

// withIssuer returns a change of the setup of a server, and the issuer whose tokens it accepts.
func withIssuer(t *testing.T) (*oidctest.Issuer, *oidc.Issuers, func(*setup)) {
	at := oidctest.New(t)
	issuers := testkit.Must(oidc.New([]oidc.Issuer{corp()}, slog.New(slog.DiscardHandler), at))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); issuers.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return at, issuers, func(s *setup) { s.Issuers = issuers }
}

// token signs a token of a member of a group.
func (r *rig) token(at *oidctest.Issuer, group string, other map[string]any) string {
	claims := oidctest.Claims("daybook", r.engine.Now()/1000, other)
	claims["groups"] = []string{group}
	return at.Sign("one", claims)
}

// TestTokens: a token has the roles of its rule. With issuers, no request is answered without a key or a token.
func TestTokens(t *testing.T) {
	at, issuers, with := withIssuer(t)
	r := start(t, with)
	r.get("/jobs").refused(http.StatusUnauthorized, "key_required")
	r.until("the issuer is known", func() bool { return r.get("/jobs", as(r.token(at, "ops", nil))...).status == http.StatusOK })
	ops, root := r.token(at, "ops", nil), r.token(at, "root", nil)
	who := r.get("/whoami", as(ops)...).object(http.StatusOK)
	testkit.Equal(t, who["name"], any("oidc/corp/anna"))
	testkit.Equal(t, who["csrf"], nil)
	testkit.Equal(t, r.get("/whoami", "Authorization", "bearer "+ops).object(http.StatusOK)["name"], any("oidc/corp/anna"))
	r.post("/jobs/create", `{}`, as(ops)...).object(http.StatusCreated)
	r.get("/keys", as(ops)...).refused(http.StatusForbidden, "role_missing")
	admin := r.newKey(root, "boss", "admin")
	made := r.get("/keys/boss", as(admin)...).object(http.StatusOK)
	testkit.Equal(t, made["by"], any("oidc/corp/anna"))
	r.post("/keys", `{"name":"oidc/corp/anna","roles":["admin"]}`, as(admin)...).wrong("name")

	r.get("/jobs", as(r.token(at, "none", nil))...).refused(http.StatusForbidden, "no_rule")
	r.get("/jobs", append(as(ops), as(ops)...)...).refused(http.StatusUnauthorized, "key_refused")
	r.get("/jobs", append(as(ops), as(admin)...)...).refused(http.StatusUnauthorized, "key_refused")
	for _, wrong := range []map[string]any{{"aud": "other"}, {"iss": "https://evil.example"}, {"exp": 5}, {"nbf": r.engine.Now()/1000 + 3600}} {
		r.get("/jobs", as(r.token(at, "root", wrong))...).refused(http.StatusUnauthorized, "token_refused")
	}
	r.get("/jobs", as(oidctest.Unsigned(t, `{"alg":"none"}`, oidctest.Claims("daybook", r.engine.Now()/1000, nil)))...).refused(http.StatusUnauthorized, "token_refused")
	r.get("/jobs", as(oidctest.New(t).Sign("one", oidctest.Claims("daybook", r.engine.Now()/1000, nil)))...).refused(http.StatusUnauthorized, "token_refused")

	// A login of a token has the roles that its rule has now, and ends with the token.
	b := r.logIn(r.token(at, "ops", map[string]any{"exp": r.engine.Now()/1000 + 600}))
	who = b.get("/whoami").object(http.StatusOK)
	testkit.Equal(t, who["name"], any("oidc/corp/anna"))
	b.get("/keys").refused(http.StatusForbidden, "role_missing")
	b.change(http.MethodPost, "/jobs/create", `{}`).object(http.StatusCreated)
	changed := corp()
	changed.Rules[1].Key.Roles = admins
	testkit.NoError(t, issuers.Replace([]oidc.Issuer{changed}))
	b.get("/keys").object(http.StatusOK)
	changed.Rules = changed.Rules[:1]
	testkit.NoError(t, issuers.Replace([]oidc.Issuer{changed}))
	b.get("/jobs").refused(http.StatusUnauthorized, "login_ended")
	r.get("/jobs", as(ops)...).refused(http.StatusForbidden, "no_rule")
}

// TestTokensBeforeTheIssuerAnswers: a client is told to come back.
func TestTokensBeforeTheIssuerAnswers(t *testing.T) {
	at := oidctest.New(t)
	issuers := testkit.Must(oidc.New([]oidc.Issuer{corp()}, slog.New(slog.DiscardHandler), at))(t) // and nothing runs them
	r := start(t, func(s *setup) { s.Issuers = issuers })
	a := r.get("/jobs", as(r.token(at, "ops", nil))...)
	a.refused(http.StatusServiceUnavailable, "issuer_unavailable")
	testkit.Equal(t, a.header.Get("Retry-After"), "1")
	r.get("/login").refused(http.StatusServiceUnavailable, "issuer_unavailable")
}

// TestTokensOfStreams: a stream ends when its token does not count any more.
func TestTokensOfStreams(t *testing.T) {
	at, issuers, with := withIssuer(t)
	r := start(t, with)
	r.until("the issuer is known", func() bool { return r.get("/jobs", as(r.token(at, "ops", nil))...).status == http.StatusOK })
	s := r.open(func(o *websocket.DialOptions) {
		o.HTTPHeader = http.Header{"Authorization": {"Bearer " + r.token(at, "ops", nil)}}
	})
	s.ok(s.send("hello", `{"runner_id":"r1"}`))
	testkit.NoError(t, issuers.Replace(nil))
	_, _, err := s.conn.Read(t.Context())
	for err == nil {
		_, _, err = s.conn.Read(t.Context())
	}
}

// fullOfLogins is an engine that can store no login.
type fullOfLogins struct {
	behind
	err error
}

func (f *fullOfLogins) PutDocument(context.Context, job.PutDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	return applied.DocumentChanged{}, ingest.Receipt{}, f.err
}

// TestLoginsOfPeople: a person goes to the issuer and comes back with a login for twelve hours.
func TestLoginsOfPeople(t *testing.T) {
	at, _, with := withIssuer(t)
	full := &fullOfLogins{}
	r := start(t, with, func(s *setup) { full.behind = s.engine.(behind) })
	r.until("the issuer is known", func() bool { return r.get("/jobs", as(r.token(at, "ops", nil))...).status == http.StatusOK })
	claims := func(group string) map[string]any {
		c := oidctest.Claims("daybook-web", r.engine.Now()/1000, map[string]any{"exp": r.engine.Now()/1000 + 60})
		c["groups"] = group
		return c
	}
	begin := func(next string) (address, cookie string) {
		res := testkit.Must(http.DefaultTransport.RoundTrip(testkit.Must(http.NewRequest(http.MethodGet, r.url+"/login?next="+url.QueryEscape(next), nil))(t)))(t)
		testkit.NoError(t, res.Body.Close())
		a := reply{t, "GET /login", res.StatusCode, res.Header, ""}
		a.wantStatus(http.StatusSeeOther)
		testkit.Equal(t, a.header.Get("Set-Cookie"), cookieOf(a)+"; Path=/; Max-Age=600; HttpOnly; SameSite=Lax")
		testkit.Equal(t, a.header.Get("Cache-Control"), "no-store")
		return a.header.Get("Location"), cookieOf(a)
	}
	navigation := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	finish := func(to *rig, cookie string, q url.Values) reply {
		return to.get("/login/callback?"+q.Encode(), append(navigation, "Cookie", cookie)...)
	}
	address, cookie := begin(`/queues?a="><script>`)
	back := at.LogIn(address, claims("ops"))
	a := finish(r, cookie, back)
	a.wantStatus(http.StatusOK)
	cookies := a.header.Values("Set-Cookie")
	testkit.Equal(t, len(cookies), 2)
	testkit.Holds(t, regexp.MustCompile(`^daybook=[0-9a-f]{64}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`).MatchString(cookies[0]) && strings.HasPrefix(cookies[1], "daybook-login=; Path=/; Max-Age=0;"), cookies)
	testkit.Contains(t, a.body, `content="0;url=/queues?a=&#34;&gt;&lt;script&gt;"`)
	testkit.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
	login, _, _ := strings.Cut(cookies[0], ";")
	who := r.get("/whoami", "Cookie", login).object(http.StatusOK)
	testkit.Equal(t, who["name"], any("oidc/corp/anna"))
	r.post("/jobs/create", `{}`, "Cookie", login).refused(http.StatusForbidden, "csrf_required")
	r.post("/jobs/create", `{}`, "Cookie", login, "Daybook-CSRF", who["csrf"].(string)).object(http.StatusCreated)
	finish(r, cookie, back).refused(http.StatusUnauthorized, "login_failed") // a code is good once

	for _, next := range []string{"https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"} {
		address, cookie := begin(next)
		testkit.Contains(t, finish(r, cookie, at.LogIn(address, claims("ops"))).body, `content="0;url=/"`)
	}
	address, cookie = begin("/")
	finish(r, "other=1", at.LogIn(address, claims("ops"))).refused(http.StatusUnauthorized, "login_failed")
	finish(r, cookie, url.Values{"error": {"access_denied"}}).refused(http.StatusUnauthorized, "login_failed")
	finish(r, cookie, at.LogIn(address, claims("nobody"))).refused(http.StatusForbidden, "no_rule")
	wrong := claims("ops")
	wrong["aud"] = "daybook"
	address, cookie = begin("/")
	finish(r, cookie, at.LogIn(address, wrong)).refused(http.StatusUnauthorized, "token_refused")
	r.get("/login?next=/a&next=/b").wrong("next")
	r.get("/login/callback?code=1&code=2").wrong("code")

	other := startOn(t, setup{engine: full, Options: Options{Issuers: r.server.authorizer.issuers}})
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{{job.TooManyLogins, 429, "too_many_logins"}, {ingest.ErrDiskFull, 507, "disk_full"}, {ingest.ErrWritesFailed, 503, "writes_failed"}, {errors.New("broken"), 500, "internal"}} {
		full.err = c.err
		address, cookie := begin("/")
		a := finish(other, cookie, at.LogIn(address, claims("ops")))
		a.refused(c.status, c.code)
		testkit.Equal(t, a.header.Get("Set-Cookie"), "")
	}
}

// TestTokenCost: a request with a remembered token takes no allocation.
func TestTokenCost(t *testing.T) {
	a, c := authorizerOfToken(t)
	if n := testing.AllocsPerRun(100, func() { _, _ = a.authorize(c, readers) }); n != 0 {
		t.Errorf("a check takes %v allocations", n)
	}
}

func authorizerOfToken(t testing.TB) (*authorizer, web.Credentials) {
	at, c := oidctest.New(t), corp()
	c.Keys, c.Login = at.Keys(), nil
	issuers := testkit.Must(oidc.New([]oidc.Issuer{c}, slog.New(slog.DiscardHandler), nil))(t)
	claims := oidctest.Claims("daybook", time.Now().Unix(), map[string]any{"groups": []string{"ops", strings.Repeat("x", 500)}, "iat": 1})
	a := &authorizer{engine: withKey{}, issuers: issuers}
	of := web.Credentials{Authorization: []string{"Bearer " + at.Sign("one", claims)}}
	key, err := a.authorize(of, readers)
	testkit.NoError(t, err)
	testkit.Equal(t, key.Name, "oidc/corp/anna")
	return a, of
}

func BenchmarkAuthorizeToken(b *testing.B) {
	a, c := authorizerOfToken(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.authorize(c, readers); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthorizeLogin(b *testing.B) {
	key := &job.Key{Actor: job.Actor{Name: "k"}, Roles: readers, Sum: job.KeySum{1}}
	a := &authorizer{engine: &failing{withKey: withKey{key: key}, login: &job.Login{By: "k", Until: 10, KeySum: key.Sum}}}
	c := web.Credentials{Logins: web.LoginTexts{strings.Repeat("0", job.LoginTextBytes)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.authorize(c, readers); err != nil {
			b.Fatal(err)
		}
	}
}
