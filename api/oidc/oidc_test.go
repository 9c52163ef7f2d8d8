package oidc

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/daybookq/daybook/api/oidc/oidctest"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// configured returns the configuration of the issuer of tests.
func configured() Issuer {
	return Issuer{
		Name: "corp", URL: oidctest.URL, Audience: "daybook",
		Login: &Login{ClientID: "daybook-web", Secret: "s3cret", Redirect: "http://localhost:1717/login/callback", Scopes: []string{"openid"}},
		Rules: []Rule{
			{"operators", map[string]any{"groups": "ops"}, job.Key{Roles: job.RolesOf(job.RoleOperator)}},
			{"mailers", map[string]any{"email": "mail@example.com"}, job.Key{Roles: job.RolesOf(job.RoleProducer)}},
			{"levels", map[string]any{"level": int64(7), "inner.deep.name": "x"}, job.Key{Roles: job.RolesOf(job.RoleBackup)}},
			{"anna", map[string]any{"sub": "anna"}, job.Key{Roles: job.RolesOf(job.RoleReader)}},
		},
	}
}

// started returns issuers that run until the test ends, and the issuer. It is called in a bubble.
func started(t *testing.T, change ...func(*Issuer)) (*Issuers, *oidctest.Issuer) {
	t.Helper()
	at, c := oidctest.New(t), configured()
	for _, f := range change {
		f(&c)
	}
	i := testkit.Must(New([]Issuer{c}, slog.New(slog.DiscardHandler), at))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	synctest.Wait()
	return i, at
}

// good returns good claims with others in their places.
func good(other map[string]any) map[string]any {
	return oidctest.Claims("daybook", time.Now().Unix(), other)
}

func nowMs() int64 { return time.Now().UnixMilli() }

// TestVerify: a good token is accepted. Any change of it, of its times, its issuer, audience, algorithm or key is not.
func TestVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, at := started(t)
		token := at.Sign("one", good(nil))
		id := testkit.Must(i.Verify(token, nowMs()))(t)
		testkit.Equal(t, id.Key.Name, "oidc/corp/anna")
		testkit.Equal(t, id.Key.Roles, job.RolesOf(job.RoleReader))
		testkit.Equal(t, id.Issuer+" "+id.Rule, "corp anna")
		testkit.Equal(t, id.Key.ExpiresAt, (time.Now().Unix()+3600+60)*1000)

		stranger := oidctest.New(t)
		sixty := time.Now().Unix()
		public := testkit.Must(json.Marshal(at.Keys()))(t)
		weak := testkit.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
		for name, c := range map[string]struct{ token, text string }{
			"signed by another":       {stranger.Sign("one", good(nil)), "signature"},
			"other issuer":            {at.Sign("one", good(map[string]any{"iss": "https://evil.example"})), "issuer"},
			"issuer with a slash":     {at.Sign("one", good(map[string]any{"iss": oidctest.URL + "/"})), "issuer"},
			"no issuer":               {at.Sign("one", good(map[string]any{"iss": nil})), "issuer"},
			"other audience":          {at.Sign("one", good(map[string]any{"aud": "other"})), "audience"},
			"audience of people":      {at.Sign("one", good(map[string]any{"aud": "daybook-web"})), "audience"},
			"no audience":             {at.Sign("one", good(map[string]any{"aud": nil})), "audience"},
			"part of the audience":    {at.Sign("one", good(map[string]any{"aud": "daybook2"})), "audience"},
			"expired":                 {at.Sign("one", good(map[string]any{"exp": sixty - 60})), "expired"},
			"no end":                  {at.Sign("one", good(map[string]any{"exp": nil})), "never ends"},
			"end as text":             {at.Sign("one", good(map[string]any{"exp": "9999999999"})), "not a time"},
			"not yet":                 {at.Sign("one", good(map[string]any{"nbf": sixty + 61})), "nbf"},
			"issued in the future":    {at.Sign("one", good(map[string]any{"iat": sixty + 61})), "iat"},
			"no subject":              {at.Sign("one", good(map[string]any{"sub": nil})), "subject"},
			"none":                    {oidctest.Unsigned(t, `{"alg":"none"}`, good(nil)), "algorithm"},
			"None":                    {oidctest.Unsigned(t, `{"alg":"None","kid":"one"}`, good(nil)), "algorithm"},
			"no algorithm":            {oidctest.Unsigned(t, `{}`, good(nil)), "algorithm"},
			"ES256 unsigned":          {oidctest.Unsigned(t, `{"alg":"ES256","kid":"one"}`, good(nil)), "signature"},
			"HS256 by the public key": {oidctest.SignWith(t, jose.SigningKey{Algorithm: jose.HS256, Key: public}, good(nil)), "algorithm"},
			"another algorithm":       {oidctest.SignWith(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: weak, KeyID: "one"}}, good(nil)), "key"},
			"embedded key":            {embedded(t, weak, good(nil)), "key"},
			"malformed":               {"a.b.c", "malformed"}, "text": {"x", "no JSON Web Token"}, "empty": {"..", "malformed"},
			"too long": {token + strings.Repeat("A", maxTokenBytes), "no JSON Web Token"},
			"claims without a bracket": {func() string {
				p := strings.Split(token, ".")
				return p[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":`)) + "." + p[2]
			}(), "malformed"},
		} {
			_, err := i.Verify(c.token, nowMs())
			testkit.Holds(t, err != nil, name, "is accepted")
			testkit.Failed(t, err, ErrToken, c.text)
			testkit.Holds(t, !strings.Contains(fmt.Sprint(err), "evil"), "the error repeats the token", err)
		}
		parts := strings.Split(token, ".")
		for part := range parts {
			for at := 0; at < len(parts[part]); at += 7 {
				changed := []string{parts[0], parts[1], parts[2]}
				swap := byte('A')
				if changed[part][at] == swap {
					swap = 'Q'
				}
				changed[part] = changed[part][:at] + string(swap) + changed[part][at+1:]
				_, err := i.Verify(strings.Join(changed, "."), nowMs())
				testkit.Holds(t, err != nil, "a changed token is accepted", part, at)
			}
		}
		for _, fine := range []map[string]any{{"exp": sixty - 59}, {"nbf": sixty + 60}, {"iat": sixty + 60}, {"aud": []string{"other", "daybook"}}, {"iat": nil}} {
			_, err := i.Verify(at.Sign("one", good(fine)), nowMs())
			testkit.NoError(t, err)
		}
	})
}

// embedded signs with a key that the header of the token has.
func embedded(t *testing.T, key *rsa.PrivateKey, claims map[string]any) string {
	signer := testkit.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, &jose.SignerOptions{EmbedJWK: true}))(t)
	return testkit.Must(testkit.Must(signer.Sign(testkit.Must(json.Marshal(claims))(t)))(t).CompactSerialize())(t)
}

// TestRules: the first rule counts whose claims are all there. An email counts only if the issuer has verified it.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, at := started(t)
		for _, c := range []struct {
			claims map[string]any
			rule   string // "": none
		}{
			{map[string]any{"groups": []string{"a", "ops"}}, "operators"}, {map[string]any{"groups": "ops"}, "operators"},
			{map[string]any{"groups": []string{"opsx"}, "sub": "bob"}, ""}, {map[string]any{"groups": map[string]any{"ops": true}, "sub": "bob"}, ""},
			{map[string]any{"email": "mail@example.com", "email_verified": true, "sub": "bob"}, "mailers"},
			{map[string]any{"email": "mail@example.com", "sub": "bob"}, ""}, {map[string]any{"email": "mail@example.com", "email_verified": "true", "sub": "bob"}, ""},
			{map[string]any{"level": 7, "inner": map[string]any{"deep": map[string]any{"name": []string{"x"}}}, "sub": "bob"}, "levels"},
			{map[string]any{"level": "7", "inner.deep.name": "x", "sub": "bob"}, ""}, {map[string]any{"level": 7, "sub": "bob"}, ""},
			{nil, "anna"}, {map[string]any{"sub": "ANNA"}, ""},
		} {
			id, err := i.Verify(at.Sign("one", good(c.claims)), nowMs())
			if c.rule == "" {
				testkit.Failed(t, err, ErrNoRule, "oidc/corp/")
				continue
			}
			testkit.NoError(t, err)
			testkit.Equal(t, id.Rule, c.rule, c.claims)
		}
		testkit.Equal(t, i.KeyOf("corp", "operators", "oidc/corp/x").Roles, job.RolesOf(job.RoleOperator))
		testkit.Holds(t, i.KeyOf("corp", "gone", "x") == nil && i.KeyOf("other", "operators", "x") == nil, "a rule that does not exist has a key")
		testkit.Equal(t, (&Rule{}).matches(map[string]any{"a": 1}), false)
	})
}

// TestNames: each subject has a name of its own, which is no name of a key, and fits into histories.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, subject := range []string{"anna", "a/b", "a_b", "a b", "a\x00b", "auth0|7", "anna@example.com", "system:serviceaccount:prod:mailer", strings.Repeat("x", 300), strings.Repeat("x", 301), "ä", "~", ".."} {
		name := nameOf(strings.Repeat("i", MaxIssuerName), subject)
		testkit.Holds(t, len(name) <= job.MaxByBytes && job.CheckName("name", name) != nil && job.CheckText("name", name, 1, job.MaxByBytes) == nil, name)
		testkit.Equal(t, seen[name], "", name)
		seen[name] = subject
	}
	testkit.Equal(t, nameOf("k8s", "system:serviceaccount:prod:mailer"), "oidc/k8s/system:serviceaccount:prod:mailer")
}

// TestIssuerIsAway: a start does not wait for the issuer, which is asked until it answers. Its keys serve for a day without it.
func TestIssuerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := oidctest.New(t)
		at.Down.Store(true)
		i := testkit.Must(New([]Issuer{configured()}, slog.New(slog.DiscardHandler), at))(t)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); i.Run(ctx) }()
		defer func() { stop(); <-ended }()
		synctest.Wait()
		token := at.Sign("one", good(map[string]any{"exp": time.Now().Add(100 * time.Hour).Unix()}))
		testkit.Fails(i.Verify(token, nowMs()))(t, ErrUnavailable, "corp")
		testkit.Fails2(i.Begin("/", time.Now()))(t, ErrUnavailable)
		time.Sleep(time.Hour)
		asked := at.Asked.Load()
		testkit.Holds(t, asked > 55 && asked < 75, "in an hour, the issuer was asked", asked, "times")
		at.Down.Store(false)
		time.Sleep(lastRetry)
		synctest.Wait()
		testkit.Must(i.Verify(token, nowMs()))(t)

		at.Down.Store(true)
		fresh := func() string { return at.Sign("one", good(map[string]any{"jti": rand.Text()})) }
		time.Sleep(keysLife - time.Minute)
		testkit.Must(i.Verify(fresh(), nowMs()))(t)
		time.Sleep(2 * time.Hour)
		testkit.Fails(i.Verify(fresh(), nowMs()))(t, ErrUnavailable)
		testkit.Must(i.Verify(token, nowMs()))(t) // it is remembered
		at.Down.Store(false)
		time.Sleep(lastRetry)
		synctest.Wait()
		testkit.Must(i.Verify(fresh(), nowMs()))(t)
	})
}

// TestKeyRotation: a token with a new key makes the server read the keys, once in ten seconds however many such tokens arrive.
func TestKeyRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, at := started(t)
		at.AddKey("two")
		old, fresh := at.Sign("one", good(nil)), at.Sign("two", good(nil))
		testkit.Fails(i.Verify(fresh, nowMs()))(t, ErrToken, "does not have") // the keys were read just now
		time.Sleep(time.Minute)
		before := at.Asked.Load()
		testkit.Fails(i.Verify(fresh, nowMs()))(t, ErrUnavailable)
		synctest.Wait()
		testkit.Must(i.Verify(fresh, nowMs()))(t)
		testkit.Must(i.Verify(old, nowMs()))(t)
		testkit.Equal(t, at.Asked.Load()-before, int64(2)) // the description and the keys

		before = at.Asked.Load()
		stranger := oidctest.New(t)
		for n := range 1000 {
			stranger.AddKey("x")
			_, err := i.Verify(stranger.Sign("x", good(map[string]any{"jti": n})), nowMs())
			testkit.Holds(t, err != nil, "a stranger's token is accepted")
			time.Sleep(100 * time.Millisecond)
		}
		testkit.Holds(t, at.Asked.Load()-before <= 2*11, "in 100 s, the issuer was asked", at.Asked.Load()-before, "times")

		at.RemoveKey("two")
		time.Sleep(keysEvery + time.Minute)
		testkit.Fails(i.Verify(at.Sign("one", good(map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()})), nowMs()))(t, ErrToken, "expired")
	})
}

// TestBadAnswersOfIssuers: what an issuer answers wrongly is not used, and takes a bounded amount of memory.
func TestBadAnswersOfIssuers(t *testing.T) {
	for name, c := range map[string]struct {
		path, body string
		status     int
	}{
		"another issuer":   {"/.well-known/openid-configuration", `{"issuer":"https://evil.example","jwks_uri":"` + oidctest.URL + `/keys"}`, 200},
		"keys without TLS": {"/.well-known/openid-configuration", `{"issuer":"` + oidctest.URL + `","jwks_uri":"http://issuer.example/keys"}`, 200},
		"no keys":          {"/keys", `{"keys":[]}`, 200},
		"symmetric key":    {"/keys", `{"keys":[{"kty":"oct","k":"AAAA","kid":"one"}]}`, 200},
		"endless":          {"/keys", `{"keys":[` + strings.Repeat(" ", 2*maxAnswer), 200},
		"too many keys":    {"/keys", `{"keys":[` + strings.Repeat(`{},`, maxKeys) + `{}]}`, 200},
		"not found":        {"/keys", `{}`, 404},
		"redirect":         {"/keys", ``, 302},
		"server error":     {"/.well-known/openid-configuration", `{}`, 500},
		"a page":           {"/.well-known/openid-configuration", `<html>`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := oidctest.New(t)
				at.Answer = func(path string) (int, string, bool) { return c.status, c.body, path == c.path }
				i := testkit.Must(New([]Issuer{configured()}, slog.New(slog.DiscardHandler), at))(t)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); i.Run(ctx) }()
				synctest.Wait()
				testkit.Fails(i.Verify(at.Sign("one", good(nil)), nowMs()))(t, ErrUnavailable)
				stop()
				<-ended
			})
		})
	}
}

// TestKeysOfAFile: an issuer whose keys are in the configuration is never asked. Replaced issuers count at once.
func TestKeysOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := oidctest.New(t)
		c := configured()
		c.Keys, c.Login = at.Keys(), nil
		i, asked := started(t, func(to *Issuer) { *to = c })
		token := at.Sign("one", good(nil))
		testkit.Must(i.Verify(token, nowMs()))(t)
		time.Sleep(2 * keysLife)
		testkit.Must(i.Verify(at.Sign("one", good(map[string]any{"jti": "2"})), nowMs()))(t)
		testkit.Equal(t, asked.Asked.Load(), int64(0))
		testkit.Fails2(i.Begin("/", time.Now()))(t, ErrNoLogin)

		token = at.Sign("one", good(nil))
		testkit.Must(i.Verify(token, nowMs()))(t)
		bad := c
		bad.Keys = []byte(`{"keys":[{"kty":"oct","k":"AAAA"}]}`)
		testkit.Failed(t, i.Replace([]Issuer{bad}), "issuer corp", "no public key")
		testkit.Must(i.Verify(token, nowMs()))(t)
		c.Rules = c.Rules[:1]
		testkit.NoError(t, i.Replace([]Issuer{c}))
		testkit.Fails(i.Verify(token, nowMs()))(t, ErrNoRule)
		testkit.NoError(t, i.Replace(nil))
		testkit.Fails(i.Verify(token, nowMs()))(t, ErrToken)
	})
}

// TestParseKeys: keys with which no token can be signed here are skipped.
func TestParseKeys(t *testing.T) {
	weak, strong := testkit.Must(rsa.GenerateKey(rand.Reader, 1024))(t), testkit.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	testkit.NoError(t, err)
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: weak.Public(), KeyID: "weak"}, {Key: strong.Public(), KeyID: "strong"}, {Key: strong, KeyID: "private"}, {Key: strong.Public(), KeyID: "enc", Use: "enc"}, {Key: edwards, KeyID: "ed"}, {Key: []byte("x"), KeyID: "oct"}}}
	keys := testkit.Must(parseKeys(testkit.Must(json.Marshal(set))(t)))(t)
	testkit.Equal(t, len(keys), 2)
	testkit.Equal(t, keys[0].KeyID+keys[1].KeyID, "stronged")
}

// TestRemembered: the table of verified tokens is bounded, and a check of one takes no allocation.
func TestRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, at := started(t)
		token, now := at.Sign("one", good(nil)), nowMs()
		id := testkit.Must(i.Verify(token, now))(t)
		testkit.Holds(t, testkit.Must(i.Verify(token, now))(t) == id, "a verified token is verified again")
		if n := testing.AllocsPerRun(100, func() { _, _ = i.Verify(token, now) }); n != 0 {
			t.Errorf("a check takes %v allocations", n)
		}
		testkit.Fails(i.Verify(token, id.Key.ExpiresAt))(t, ErrToken, "expired")
		for n := range maxRemembered + 10 {
			i.remember(i.known.Load(), [32]byte{byte(n), byte(n >> 8), byte(n >> 16), 1}, &Identity{Key: job.Key{ExpiresAt: now + 1}}, now)
		}
		testkit.Equal(t, len(i.remembered), maxRemembered)
		i.remember(i.known.Load(), [32]byte{2}, id, now+1)
		testkit.Holds(t, len(i.remembered) <= 2, "tokens that have ended stay", len(i.remembered))
	})
}

// TestPeople: a person logs in by code, with PKCE, a state and a nonce. A code, a state or a token of somebody else is refused.
func TestPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, at := started(t)
		begin := func() (address, kept string) {
			address, kept, err := i.Begin("/queues?x=1", time.Now())
			testkit.NoError(t, err)
			return address, kept
		}
		claims := oidctest.Claims("daybook-web", time.Now().Unix(), map[string]any{"groups": "ops"})
		finish := func(kept string, q url.Values) (*Identity, string, error) {
			return i.Finish(t.Context(), kept, q.Get("code"), q.Get("state"), time.Now())
		}
		address, kept := begin()
		back := at.LogIn(address, claims)
		id, next, err := finish(kept, back)
		testkit.NoError(t, err)
		testkit.Equal(t, id.Key.Name+" "+id.Rule+" "+next, "oidc/corp/anna operators /queues?x=1")
		_, _, err = finish(kept, back) // a code is good once
		testkit.Failed(t, err, ErrFlow, "refused the code")

		otherAddress, otherKept := begin()
		for name, f := range map[string]func() (string, url.Values){
			"another browser": func() (string, url.Values) { return otherKept, at.LogIn(address, claims) },
			"no cookie":       func() (string, url.Values) { return "", at.LogIn(address, claims) },
			"broken cookie":   func() (string, url.Values) { return "x" + kept, at.LogIn(address, claims) },
			"no state": func() (string, url.Values) {
				q := at.LogIn(address, claims)
				q.Del("state")
				return kept, q
			},
			"no code": func() (string, url.Values) {
				q := at.LogIn(address, claims)
				q.Del("code")
				return kept, q
			},
			"another's code": func() (string, url.Values) { // PKCE
				q := at.LogIn(address, claims)
				q.Set("code", at.LogIn(otherAddress, claims).Get("code"))
				return kept, q
			},
		} {
			_, _, err := finish(f())
			testkit.Holds(t, err != nil, name)
			testkit.Failed(t, err, ErrFlow)
		}
		for name, other := range map[string]map[string]any{"another nonce": {"nonce": "x"}, "no nonce": {"nonce": nil}, "another audience": {"aud": "daybook"}, "for two": {"aud": []string{"daybook-web", "x"}, "azp": "x"}, "expired": {"exp": 5}} {
			c := maps.Clone(claims)
			maps.Copy(c, other)
			address, kept := begin()
			_, _, err := finish(kept, at.LogIn(address, c))
			testkit.Holds(t, err != nil, name)
			testkit.Failed(t, err, ErrToken)
		}
		address, kept = begin()
		c := maps.Clone(claims)
		c["groups"], c["sub"] = "none", "bob"
		_, _, err = finish(kept, at.LogIn(address, c))
		testkit.Failed(t, err, ErrNoRule)

		address, kept = begin()
		back = at.LogIn(address, claims)
		for range maxReturning {
			i.logins <- struct{}{}
		}
		_, _, err = finish(kept, back)
		testkit.Failed(t, err, ErrBusy)
		for range maxReturning {
			<-i.logins
		}
		at.Down.Store(true)
		_, _, err = finish(kept, back)
		testkit.Failed(t, err, ErrUnavailable)
		at.Down.Store(false)
		time.Sleep(FlowTime)
		_, _, err = finish(kept, back)
		testkit.Failed(t, err, ErrFlow, "ten minutes")
	})
}

// TestLocalPath: a log-in never leads to another site.
func TestLocalPath(t *testing.T) {
	for _, fine := range []string{"/", "/queues", "/jobs?x=a%20b#top", "/a//b", "/?next=https://x"} {
		testkit.Equal(t, LocalPath(fine), fine)
	}
	for _, wrong := range []string{"", "queues", "//evil.example", "///evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example", "https:evil.example", "javascript:alert(1)", "/a\nb", "/\tb", "\t//evil.example", " /a", "/ä", "/\x7f", "/" + strings.Repeat("a", maxNext), "@evil.example", "/%zz"} {
		testkit.Equal(t, LocalPath(wrong), "/", wrong)
	}
}

// TestCheckURL: only an issuer on this machine may be without TLS.
func TestCheckURL(t *testing.T) {
	for _, fine := range []string{"https://issuer.example", "https://issuer.example/realms/a", "http://localhost:9", "http://127.0.0.1:9/x", "http://[::1]"} {
		testkit.NoError(t, CheckURL(fine))
	}
	for _, wrong := range []string{"", "issuer.example", "http://issuer.example", "http://localhost.evil.example", "ftp://a", "https://u:p@a", "https://a#b", "https://", "http://10.0.0.1", "https://a b"} {
		testkit.Failed(t, CheckURL(wrong), "which")
	}
}

// FuzzVerify: no text that the issuer has not signed is a token.
func FuzzVerify(f *testing.F) {
	at, c := oidctest.New(f), configured()
	c.Keys, c.Login = at.Keys(), nil
	i := testkit.Must(New([]Issuer{c}, slog.New(slog.DiscardHandler), nil))(f)
	token := at.Sign("one", good(nil))
	f.Add(token)
	f.Add(oidctest.Unsigned(f, `{"alg":"none"}`, good(nil)))
	f.Add(oidctest.Unsigned(f, `{"alg":"ES256","jwk":{"kty":"oct","k":"AA"}}`, good(nil)))
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := i.Verify(text, nowMs()); err == nil && text != token {
			t.Errorf("%q is accepted", text)
		}
	})
}

func BenchmarkRemembered(b *testing.B) {
	at, c := oidctest.New(b), configured()
	c.Keys, c.Login = at.Keys(), nil
	i := testkit.Must(New([]Issuer{c}, slog.New(slog.DiscardHandler), http.DefaultTransport))(b)
	token, now := at.Sign("one", good(map[string]any{"groups": []string{"ops", strings.Repeat("a", 500)}})), nowMs()
	testkit.Must(i.Verify(token, now))(b)
	b.ReportAllocs()
	b.ReportMetric(float64(len(token)), "bytes/token")
	for b.Loop() {
		if _, err := i.Verify(token, now); err != nil {
			b.Fatal(err)
		}
	}
}
