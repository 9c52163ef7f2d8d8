package intruder

import (
	"encoding/base64"
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
}

// bearer returns credentials with a text as the key, which is refused.
func bearer(what string, key func(s *server) string) credential {
	return credential{what, func(s *server) []string { return []string{"Authorization", "Bearer " + key(s)} }, http.StatusUnauthorized, "key_refused", false}
}

func header(what string, headers func(s *server) []string) credential {
	return credential{what, headers, http.StatusUnauthorized, "key_refused", false}
}

// credentials are all that the tests try at each route. Another way to log in adds its wrong forms here.
var credentials = []credential{
	{"no key", func(*server) []string { return nil }, http.StatusUnauthorized, "key_required", false},
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
	{"the key in another header", func(s *server) []string { return []string{"Proxy-Authorization", "Bearer " + s.keys["boss"]} }, http.StatusUnauthorized, "key_required", false},
	{"the key in a cookie", func(s *server) []string {
		return []string{"Cookie", "key=" + s.keys["boss"] + "; Authorization=" + s.keys["boss"]}
	}, http.StatusUnauthorized, "key_required", false},
	{"a page of another origin", func(s *server) []string { return append(s.as("boss"), "Origin", "https://evil.example") }, http.StatusForbidden, "forbidden_origin", true},
	{"a sandboxed page", func(s *server) []string { return append(s.as("boss"), "Origin", "null") }, http.StatusForbidden, "forbidden_origin", true},
	{"a request that another site caused", func(s *server) []string { return append(s.as("boss"), "Sec-Fetch-Site", "cross-site") }, http.StatusForbidden, "forbidden_origin", true},
	{"a name that resolves to this server", func(s *server) []string { return append(s.as("boss"), "Host", "evil.example") }, http.StatusForbidden, "forbidden_host", true},
}

// spend creates the keys that are of no use any more.
func (s *server) spend() {
	s.Helper()
	for _, name := range []string{"revoked", "rotated", "overlapped"} {
		s.newKey(name, `"roles":["admin"]`)
	}
	now := int64(s.must("GET", "/stats", "", s.as("boss")...)["now"].(float64))
	s.newKey("expired", `"roles":["admin"],"expires_at":`+number(now+60_000))
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
	n := 0
	s.eachRequest(func(p *api.Permit, r *request, what string) {
		before := s.state()
		for _, c := range credentials {
			a := s.ask(p, r, s.things, c.headers(s)...)
			n++
			if p.Roles == 0 && !c.public {
				testkit.Holds(t, a.status < 400, what, "needs no key", c.what, a.status, a.body)
				s.lacks(a.body, s.marks("victim"), what, c.what)
				continue
			}
			testkit.Holds(t, a.status == c.status && (a.code() == c.code || p.Method == http.MethodHead), what, "with", c.what, a.status, a.body, "want", c.status, c.code)
			testkit.Holds(t, a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") != "", what, "with", c.what, a.header)
			s.lacks(a.body, s.marks("victim"), what, c.what)
		}
		same(t, s.state(), before, what)
	})
	t.Log(n, "requests were refused")
}

var roles = []job.Role{job.RoleAdmin, job.RoleOperator, job.RoleProducer, job.RoleWorker, job.RoleReader, job.RoleBackup, job.RoleMetrics}

// TestRoles: a key with a single role gets in where the table of access names the role, and is refused everywhere else.
func TestRoles(t *testing.T) {
	s := start(t)
	for _, role := range roles {
		s.newKey(role.String(), `"roles":["`+role.String()+`"]`)
	}
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
			a := s.ask(p, r, s.things, s.as(role.String())...)
			denied := a.status == http.StatusForbidden && (a.code() == "role_missing" || p.Method == http.MethodHead)
			testkit.Holds(t, denied != may, what, "with the role", role, a.status, a.body)
			testkit.Holds(t, may || !strings.Contains(a.body, "MARK"), what, "with the role", role, a.body)
		}
		same(t, s.state(), before, what)
	})
}
