package intruder

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// credential is what a request has in place of a good key.
type credential struct {
	what    string
	headers func(s *server) []string
	status  int
	code    string
	public  bool // also routes that need no key refuse it
	reads   bool // requests that only read need no more
}

// bearer returns credentials with a text as the key, which is refused.
func bearer(what string, key func(s *server) string) credential {
	return credential{what, func(s *server) []string { return []string{"Authorization", "Bearer " + key(s)} }, http.StatusUnauthorized, "key_refused", false, false}
}

func header(what string, headers func(s *server) []string) credential {
	return credential{what, headers, http.StatusUnauthorized, "key_refused", false, false}
}

// credentials are all that the tests try at each route. Another way to log in adds its wrong forms here; tokens_test.go has tokens.
var credentials = []credential{
	{"no key", func(*server) []string { return nil }, http.StatusUnauthorized, "key_required", false, false},
	bearer("an empty key", func(*server) string { return "" }),
	bearer("no key but a word", func(*server) string { return "admin" }),
	bearer("a wrong secret", func(*server) string { return job.KeyText("boss", [job.SecretBytes]byte{}) }),
	bearer("a key of nobody", func(*server) string { return job.KeyText("absent", [job.SecretBytes]byte{}) }),
	bearer("a key without its last digit", func(s *server) string { return s.keys["boss"][:len(s.keys["boss"])-1] }),
	bearer("a key with one digit more", func(s *server) string { return s.keys["boss"] + "0" }),
	bearer("a key in upper case", func(s *server) string { return strings.ToUpper(s.keys["boss"]) }),
	bearer("the secret of another key", func(s *server) string { return strings.Replace(s.keys["reader"], "dbk_reader_", "dbk_boss_", 1) }),
	bearer("a revoked key", func(s *server) string { return s.keys["revoked"] }),
	bearer("an expired key", func(s *server) string { return s.keys["expired"] }),
	bearer("a key that was rotated without an overlap", func(s *server) string { return s.keys["rotated"] }),
	bearer("a key that was rotated with an overlap that has ended", func(s *server) string { return s.keys["overlapped"] }),
	header("two headers", func(s *server) []string { return append(s.as("boss"), s.as("boss")...) }),
	header("two keys in a header", func(s *server) []string {
		return []string{"Authorization", "Bearer " + s.keys["boss"] + ", Bearer " + s.keys["boss"]}
	}),
	header("another scheme", func(s *server) []string { return []string{"Authorization", "Digest " + s.keys["boss"]} }),
	header("no scheme", func(s *server) []string { return []string{"Authorization", s.keys["boss"]} }),
	header("the key as a user of Basic", func(s *server) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(s.keys["boss"]+":"))}
	}),
	{"the key in another header", func(s *server) []string { return []string{"Proxy-Authorization", "Bearer " + s.keys["boss"]} }, http.StatusUnauthorized, "key_required", false, false},
	{"the key in a cookie", func(s *server) []string {
		return []string{"Cookie", "key=" + s.keys["boss"] + "; Authorization=" + s.keys["boss"]}
	}, http.StatusUnauthorized, "key_required", false, false},
	{"a page of another origin", func(s *server) []string { return append(s.as("boss"), "Origin", "https://evil.example") }, http.StatusForbidden, "forbidden_origin", true, false},
	{"a sandboxed page", func(s *server) []string { return append(s.as("boss"), "Origin", "null") }, http.StatusForbidden, "forbidden_origin", true, false},
	{"a request that another site caused", func(s *server) []string { return append(s.as("boss"), "Sec-Fetch-Site", "cross-site") }, http.StatusForbidden, "forbidden_origin", true, false},
	{"a name that resolves to this server", func(s *server) []string { return append(s.as("boss"), "Host", "evil.example") }, http.StatusForbidden, "forbidden_host", true, false},

	// Logins of browsers.
	login("a login that has ended", func(s *server) []string {
		return []string{"Cookie", s.logins["ended"].cookie, tokenHeader, s.logins["ended"].token}
	}),
	login("a login with a key that was revoked", func(s *server) []string {
		return []string{"Cookie", s.logins["revoked"].cookie, tokenHeader, s.logins["revoked"].token}
	}),
	login("two logins", func(s *server) []string {
		return []string{"Cookie", s.logins["boss"].cookie + "; " + s.logins["other"].cookie, tokenHeader, s.logins["boss"].token}
	}),
	login("a key as a login", func(s *server) []string {
		return []string{"Cookie", "daybook=" + s.keys["boss"], tokenHeader, s.logins["boss"].token}
	}),
	header("a wrong key beside a login", func(s *server) []string {
		return []string{"Authorization", "Bearer absent", "Cookie", s.logins["boss"].cookie, tokenHeader, s.logins["boss"].token}
	}),
	{"a login without its token", func(s *server) []string { return []string{"Cookie", s.logins["boss"].cookie} }, http.StatusForbidden, "csrf_required", false, true},
	{"a login with the token of another one", func(s *server) []string {
		return []string{"Cookie", s.logins["boss"].cookie, tokenHeader, s.logins["other"].token}
	}, http.StatusForbidden, "csrf_required", false, true},
	{"a login with its token twice", func(s *server) []string {
		return []string{"Cookie", s.logins["boss"].cookie, tokenHeader, s.logins["boss"].token, tokenHeader, s.logins["boss"].token}
	}, http.StatusForbidden, "csrf_required", false, true},
	{"a login in a page of another origin", func(s *server) []string {
		return []string{"Cookie", s.logins["boss"].cookie, tokenHeader, s.logins["boss"].token, "Origin", "https://evil.example"}
	}, http.StatusForbidden, "forbidden_origin", true, false},
}

// login returns credentials with a login that is refused.
func login(what string, headers func(s *server) []string) credential {
	return credential{what, headers, http.StatusUnauthorized, "login_ended", false, false}
}

const tokenHeader = "Daybook-CSRF"

// browser is a login: its cookie, and the token that changes need.
type browser struct{ cookie, token string }

func (s *server) logIn(name, key string) {
	s.Helper()
	a := s.send("POST", "/login", `{"key":"`+s.keys[key]+`"}`, "Content-Type", "application/json")
	testkit.MustEqual(s, a.status, http.StatusOK, a.body)
	var doc struct{ CSRF string }
	testkit.NoError(s, json.Unmarshal([]byte(a.body), &doc))
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	s.logins[name] = browser{cookie, doc.CSRF}
	s.must("GET", "/jobs", "", "Cookie", cookie)
}

// reading reports whether an operation only reads: a browser sends some requests without a page of the server that has the token.
func reading(p *api.Permit) bool {
	switch p.Operation {
	case "stream", "startByGet", "stopByGet", "quitByGet":
		return false
	}
	return p.Method == http.MethodGet || p.Method == http.MethodHead || p.Method == http.MethodOptions
}

// spend creates the keys that are of no use any more.
func (s *server) spend() {
	s.Helper()
	for _, name := range []string{"revoked", "rotated", "overlapped"} {
		s.newKey(name, `"roles":["admin"]`)
	}
	now := int64(s.must("GET", "/stats", "", s.as("boss")...)["now"].(float64))
	s.newKey("expired", `"roles":["admin"],"expires_at":`+number(now+60_000))
	s.logIn("ended", "boss")
	s.must("POST", "/logout", "", "Cookie", s.logins["ended"].cookie, tokenHeader, s.logins["ended"].token)
	s.logIn("revoked", "revoked")
	s.keys["expiring"] = s.token("boss", map[string]any{"exp": s.unix() + 30})
	s.logIn("expiring", "expiring")
	s.logIn("boss", "boss")
	s.logIn("other", "boss")
	s.must("DELETE", "/keys/revoked", "", s.as("boss")...)
	s.must("POST", "/keys/rotated/rotate", "{}", s.as("boss")...)
	s.must("POST", "/keys/overlapped/rotate", `{"overlap_ms":60000}`, s.as("boss")...)
	for _, name := range []string{"expired", "overlapped"} {
		s.must("GET", "/whoami", "", s.as(name)...)
	}
	s.ahead.Add(120_000)
}

// TestWrongCredentials: no request with a wrong credential is answered, and none changes anything.
func TestWrongCredentials(t *testing.T) {
	s := start(t)
	s.newKey("reader", `"roles":["reader"]`)
	s.spend()
	n, seen := 0, map[string]bool{}
	s.eachRequest(func(p *api.Permit, r *request, what string) {
		before := s.state()
		for _, c := range credentials {
			a := s.ask(p, r, s.things, c.headers(s)...)
			n++
			if c.reads && reading(p) {
				continue
			}
			s.lacks(a.body, s.marks("victim"), what, c.what)
			limited := a.status == http.StatusTooManyRequests && c.code == "key_refused" // after ten wrong keys in a minute
			switch {
			case p.Roles == 0 && !c.public:
				testkit.Holds(t, a.status < 400 || a.status == r.status || p.Operation == "login" && a.status == http.StatusTooManyRequests, what, "needs no key", c.what, a.status, a.body)
				continue
			case limited:
				testkit.Holds(t, a.code() == "rate_limited" || p.Method == http.MethodHead, what, "with", c.what, a.body)
				continue
			}
			seen[c.what] = true
			testkit.Holds(t, a.status == c.status && (a.code() == c.code || p.Method == http.MethodHead), what, "with", c.what, a.status, a.body, "want", c.status, c.code)
			testkit.Holds(t, a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") != "", what, "with", c.what, a.header)
			if len(seen) < len(credentials) {
				s.ahead.Add(6000) // so that each credential once gets another answer than that there were too many
			}
		}
		same(t, s.state(), before, what)
	})
	testkit.Equal(t, len(seen), len(credentials), "credentials that got their own answer")
	t.Log(n, "requests were refused")
}

var roles = []job.Role{job.RoleAdmin, job.RoleOperator, job.RoleProducer, job.RoleWorker, job.RoleReader, job.RoleBackup, job.RoleMetrics}

// TestRoles: a key with a single role gets in where the table of access names the role, and is refused everywhere else.
func TestRoles(t *testing.T) {
	s := start(t)
	for _, role := range roles {
		s.newKey(role.String(), `"roles":["`+role.String()+`"]`)
	}
	s.eachRole(func(role job.Role) []string { return s.as(role.String()) })
}

// eachRole sends each request with each role, except those that would change something.
func (s *server) eachRole(as func(role job.Role) []string) {
	s.Helper()
	s.eachRequest(func(p *api.Permit, r *request, what string) {
		if p.Roles == 0 {
			return
		}
		before := s.state()
		for _, role := range roles[1:] { // an admin may do everything
			may := p.Roles.Has(job.RolesOf(role))
			if may && r.changes {
				continue // it would
			}
			a := s.ask(p, r, s.things, as(role)...)
			denied := a.status == http.StatusForbidden && (a.code() == "role_missing" || p.Method == http.MethodHead)
			testkit.Holds(s, denied != may, what, "with the role", role, a.status, a.body)
			testkit.Holds(s, may || !strings.Contains(a.body, "MARK"), what, "with the role", role, a.body)
		}
		same(s, s.state(), before, what)
	})
}
