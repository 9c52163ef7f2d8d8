package intruder

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/api/oidc"
	"github.com/daybookq/daybook/api/oidc/oidctest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// audience is the one that tokens for the server have.
const audience = "daybook"

// issuerOf returns the configuration of an issuer whose keys are in a file. Its members of boss are admins, those of victim may do
// what the victim's key may, and those of a role have the role.
func issuerOf(at *oidctest.Issuer) oidc.Issuer {
	rule := func(group string, key job.Key) oidc.Rule {
		return oidc.Rule{Name: group, Claims: map[string]any{"groups": group}, Key: key}
	}
	i := oidc.Issuer{Name: "corp", URL: oidctest.URL, Audience: audience, Keys: at.Keys(), Rules: []oidc.Rule{
		rule("boss", job.Key{Roles: job.RolesOf(job.RoleAdmin)}),
		rule("victim", job.Key{Roles: job.RolesOf(job.RoleOperator, job.RoleProducer, job.RoleWorker), Actor: job.Actor{Scope: job.Scope{Clients: []string{"victim"}}}, RunnerPrefix: "victim:"}),
	}}
	for _, role := range roles {
		i.Rules = append(i.Rules, rule(role.String(), job.Key{Roles: job.RolesOf(role)}))
	}
	return i
}

// claims returns good claims of a member of a group, with others in their places.
func (s *server) claims(group string, other map[string]any) map[string]any {
	claims := oidctest.Claims(audience, s.unix(), map[string]any{"sub": group, "groups": []string{group}})
	for name, value := range other {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// token signs the claims of a member of a group.
func (s *server) token(group string, other map[string]any) string {
	return s.issuer.Sign("one", s.claims(group, other))
}

// wrongToken is a token that the server must refuse.
type wrongToken struct {
	what  string
	token func(s *server) string
	code  string // "": token_refused
}

func (w *wrongToken) refusal() (status int, code string) {
	switch w.code {
	case "":
		return http.StatusUnauthorized, "token_refused"
	case "no_rule":
		return http.StatusForbidden, w.code
	}
	return http.StatusUnauthorized, w.code
}

// claimed returns an admin's token with other claims.
func claimed(what, name string, value func(s *server) any) wrongToken {
	return wrongToken{what, func(s *server) string { return s.token("boss", map[string]any{name: value(s)}) }, ""}
}

func always(value any) func(*server) any { return func(*server) any { return value } }

// at returns the time of the server, and some seconds more.
func at(more int64) func(*server) any { return func(s *server) any { return s.unix() + more } }

// unsigned returns an admin's token with a header and no signature.
func unsigned(what, header string) wrongToken {
	return wrongToken{what, func(s *server) string { return oidctest.Unsigned(s, header, s.claims("boss", nil)) }, ""}
}

// parts returns the header, claims and signature of a token.
func parts(token string) []string { return strings.Split(token, ".") }

// wrongTokens are of an admin, but for what is wrong with them.
var wrongTokens = []wrongToken{
	claimed("a token of another issuer", "iss", always("https://evil.example")),
	claimed("a token of the issuer with a slash", "iss", always(oidctest.URL+"/")),
	claimed("a token of no issuer", "iss", always(nil)),
	claimed("a token for another audience", "aud", always("other")),
	claimed("a token for two other audiences", "aud", always([]string{"other", audience + "2"})),
	claimed("a token for no audience", "aud", always(nil)),
	claimed("a token that has expired", "exp", at(-int64(oidc.Skew.Seconds()))), // the server accepts it for as long as clocks may differ
	claimed("a token that never ends", "exp", always(nil)),
	claimed("a token that ends at a text", "exp", always("9999999999")),
	claimed("a token that is not valid yet", "nbf", at(3600)), // far beyond the skew, so that a slow machine does not matter
	claimed("a token of the future", "iat", at(3600)),
	claimed("a token of nobody", "sub", always(nil)),
	{"a token that another key has signed", func(s *server) string { return s.stranger.Sign("one", s.claims("boss", nil)) }, ""},
	{"a token of a key that the issuer does not have", func(s *server) string { return s.stranger.Sign("two", s.claims("boss", nil)) }, ""},
	{"a token with its own key in its header", func(s *server) string {
		_, key, err := ed25519.GenerateKey(nil)
		testkit.NoError(s, err)
		signer := testkit.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, &jose.SignerOptions{EmbedJWK: true}))(s)
		signed := testkit.Must(signer.Sign(testkit.Must(json.Marshal(s.claims("boss", nil)))(s)))(s)
		return testkit.Must(signed.CompactSerialize())(s)
	}, ""},
	{"a token with the claims of another one", func(s *server) string {
		signed, wanted := parts(s.token("reader", nil)), parts(s.token("boss", nil))
		return signed[0] + "." + wanted[1] + "." + signed[2]
	}, ""},
	unsigned("a token that nobody has signed", `{"alg":"none"}`),
	unsigned("a token that nobody has signed, in other letters", `{"alg":"nOnE","kid":"one"}`),
	unsigned("a token without an algorithm", `{"kid":"one"}`),
	unsigned("a token without its signature", `{"alg":"ES256","kid":"one"}`),
	{"a token that the public key has signed as a secret", func(s *server) string {
		return oidctest.SignWith(s, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: s.issuer.Keys(), KeyID: "one"}}, s.claims("boss", nil))
	}, ""},
	{"a token in upper case", func(s *server) string { return strings.ToUpper(s.token("boss", nil)) }, ""},
	{"a token that no rule is for", func(s *server) string { return s.token("nobody", nil) }, "no_rule"},
	{"a token that is longer than tokens are", func(s *server) string { return s.token("boss", nil) + strings.Repeat("A", 16<<10) }, "key_refused"},
}

// credential returns the token as what a request has.
func (w *wrongToken) credential() credential {
	status, code := w.refusal()
	return credential{w.what, func(s *server) []string { return bearing(w.token(s)) }, status, code, false, false}
}

// bearing returns the header with the text of a key or a token.
func bearing(text string) []string { return []string{"Authorization", "Bearer " + text} }

func init() {
	for i := range wrongTokens {
		credentials = append(credentials, wrongTokens[i].credential())
	}
	good := func(s *server) []string { return bearing(s.token("boss", nil)) }
	credentials = append(credentials,
		header("two tokens", func(s *server) []string { return append(good(s), good(s)...) }),
		header("a token and a key", func(s *server) []string { return append(good(s), s.as("boss")...) }),
		header("a key and a token", func(s *server) []string { return append(s.as("boss"), good(s)...) }),
		header("a good token and a wrong one", func(s *server) []string {
			return append(good(s), bearing(s.stranger.Sign("one", s.claims("boss", nil)))...)
		}),
		header("two tokens in a header", func(s *server) []string {
			return bearing(s.token("boss", nil) + ", Bearer " + s.token("boss", nil))
		}),
		header("a token of another scheme", func(s *server) []string { return []string{"Authorization", "Digest " + s.token("boss", nil)} }),
		login("a token as a login", func(s *server) []string {
			return []string{"Cookie", "daybook=" + s.token("boss", nil), tokenHeader, s.logins["boss"].token}
		}),
		login("a login with a token that has expired", func(s *server) []string {
			return []string{"Cookie", s.logins["expiring"].cookie, tokenHeader, s.logins["expiring"].token}
		}),
		credential{"a good token in a page of another origin", func(s *server) []string { return append(good(s), "Origin", "https://evil.example") }, http.StatusForbidden, "forbidden_origin", true, false},
	)
}

// TestWrongLogins: nobody logs in with a wrong token, and a good one logs in.
func TestWrongLogins(t *testing.T) {
	s := start(t)
	before := s.state()
	for i := range wrongTokens {
		w := &wrongTokens[i]
		a := s.send("POST", "/login", `{"key":"`+w.token(s)+`"}`, "Content-Type", "application/json")
		status, code := w.refusal()
		if code == "key_refused" { // the schema of the body bounds it
			status, code = http.StatusBadRequest, "bad_request"
		}
		testkit.Holds(t, a.status == status && a.code() == code && a.header.Get("Set-Cookie") == "", "a log-in with", w.what, a.status, a.body, "want", status, code)
		same(t, s.state(), before, "a log-in with", w.what)
	}
	s.keys["token"] = s.token("boss", nil)
	s.logIn("token", "token")
	testkit.Holds(t, s.state() != before, "the tests of this package do not notice a log-in")
}

// TestTokensOfRoles is TestRoles for tokens whose rule gives them a single role.
func TestTokensOfRoles(t *testing.T) {
	s := start(t)
	s.eachRole(func(role job.Role) []string { return bearing(s.token(role.String(), nil)) })
}

// TestOwnersWithTokensGetIn is TestOwnersGetIn for tokens: what TestWrongCredentials refuses is wrong only where it says so.
func TestOwnersWithTokensGetIn(t *testing.T) {
	s := start(t)
	s.byToken = true
	s.fill() // sessions belong to the key or the token that opened them
	s.ownersGetIn()
}

// TestVerbsOfSpentTokens: an open stream refuses each verb from the moment on at which its token expires, or at which its issuer,
// the rule for it, or the key that has signed it are no longer in the configuration.
func TestVerbsOfSpentTokens(t *testing.T) {
	s := start(t)
	replace := func(list ...oidc.Issuer) { testkit.NoError(t, s.issuers.Replace(list)) }
	changed := func(change func(*oidc.Issuer)) func() {
		return func() { i := issuerOf(s.issuer); change(&i); replace(i) }
	}
	spent := map[string]struct {
		spend func()
		code  string
	}{
		"expired":                  {func() { s.ahead.Add(50_000 + oidc.Skew.Milliseconds()) }, "token_refused"},
		"of an issuer that is out": {func() { replace() }, "token_refused"},
		"without a rule":           {changed(func(i *oidc.Issuer) { i.Rules = i.Rules[:1] }), "no_rule"},
		"of a key that is out":     {changed(func(i *oidc.Issuer) { i.Keys = s.stranger.Keys() }), "token_refused"},
		"for another audience":     {changed(func(i *oidc.Issuer) { i.Audience = "other" }), "token_refused"},
	}
	n := 0
	for how, by := range spent {
		s.eachVerb(func(p *api.Permit, r *request, what string) {
			n++
			name := "token" + number(int64(n))
			s.keys[name] = s.token("victim", map[string]any{"exp": s.unix() + 50})
			c := s.open(name)
			own := "victim:" + name
			if p.Operation != "hello" {
				_, code, err := c.send("hello", `{"runner_id":"`+own+`"}`)
				testkit.Holds(t, err == nil && code == "", code, err)
			}
			by.spend()
			before := s.state()
			answer, code, err := c.send(p.Operation, strings.ReplaceAll(fillIn(r.body, s.things), "OWN", own))
			testkit.Holds(t, err != nil || code == by.code, what, "with a token that is", how, answer)
			same(t, s.state(), before, what, "with a token that is", how)
			_ = c.conn.CloseNow()
			replace(issuerOf(s.issuer))
		})
	}
}
