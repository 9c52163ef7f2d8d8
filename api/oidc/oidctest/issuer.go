// Package oidctest has an issuer in memory, for tests. It signs whatever a test wants, also what no honest issuer would sign.
// proof/issuer tests the server with a real issuer.
package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/daybookq/daybook/internal/testkit"
)

// URL is the URL of the issuer.
const URL = "https://issuer.example"

// Issuer is an issuer. It is the transport of the HTTP client that asks it.
type Issuer struct {
	t      testing.TB
	Down   atomic.Bool  // it does not answer
	Asked  atomic.Int64 // requests
	Answer func(path string) (status int, body string, ok bool)

	mu    sync.Mutex
	keys  map[string]*ecdsa.PrivateKey
	codes map[string]code
}

type code struct {
	claims    map[string]any
	challenge string
}

// New returns an issuer with the key "one".
func New(t testing.TB) *Issuer {
	i := &Issuer{t: t, keys: map[string]*ecdsa.PrivateKey{}, codes: map[string]code{}}
	i.AddKey("one")
	return i
}

// AddKey adds a key.
func (i *Issuer) AddKey(id string) {
	key := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(i.t)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[id] = key
}

// RemoveKey removes a key.
func (i *Issuer) RemoveKey(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, id)
}

// Keys returns the key set.
func (i *Issuer) Keys() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	var set jose.JSONWebKeySet
	for id, key := range i.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	}
	return testkit.Must(json.Marshal(set))(i.t)
}

// Claims returns good claims for an audience, which end an hour after now in unix seconds, with others in their places. A claim of nil
// is left out.
func Claims(audience string, now int64, other map[string]any) map[string]any {
	claims := map[string]any{"iss": URL, "sub": "anna", "aud": audience, "iat": now, "exp": now + 3600}
	maps.Copy(claims, other)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Sign signs claims with one of the keys.
func (i *Issuer) Sign(id string, claims map[string]any) string {
	i.mu.Lock()
	key := i.keys[id]
	i.mu.Unlock()
	return SignWith(i.t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, claims)
}

// SignWith signs claims with any key and algorithm.
func SignWith(t testing.TB, key jose.SigningKey, claims map[string]any) string {
	signer := testkit.Must(jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT")))(t)
	signed := testkit.Must(signer.Sign(testkit.Must(json.Marshal(claims))(t)))(t)
	return testkit.Must(signed.CompactSerialize())(t)
}

// Unsigned returns a token with a header and no signature.
func Unsigned(t testing.TB, header string, claims map[string]any) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(header)) + "." + e.EncodeToString(testkit.Must(json.Marshal(claims))(t)) + "."
}

// LogIn is a person who logs in at an address that the server has sent a browser to. It returns the query with which the person comes
// back. claims are those of the ID token, without the nonce.
func (i *Issuer) LogIn(address string, claims map[string]any) url.Values {
	u := testkit.Must(url.Parse(address))(i.t)
	q := u.Query()
	testkit.Equal(i.t, u.Scheme+"://"+u.Host+u.Path, URL+"/authorize")
	testkit.Equal(i.t, q.Get("code_challenge_method"), "S256")
	testkit.Equal(i.t, q.Get("response_type"), "code")
	claims = maps.Clone(claims)
	if _, given := claims["nonce"]; !given {
		claims["nonce"] = q.Get("nonce")
	}
	name := rand.Text()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.codes[name] = code{claims, q.Get("code_challenge")}
	return url.Values{"code": {name}, "state": {q.Get("state")}, "session_state": {"x"}}
}

// RoundTrip answers a request.
func (i *Issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	i.Asked.Add(1)
	if i.Down.Load() {
		return nil, errors.New("the issuer is down")
	}
	status, body := i.answer(r)
	if i.Answer != nil {
		if s, b, ok := i.Answer(r.URL.Path); ok {
			status, body = s, b
		}
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func (i *Issuer) answer(r *http.Request) (status int, body string) {
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		return http.StatusOK, `{"issuer":"` + URL + `","jwks_uri":"` + URL + `/keys","authorization_endpoint":"` + URL + `/authorize","token_endpoint":"` + URL + `/token"}`
	case "/keys":
		return http.StatusOK, string(i.Keys())
	case "/token":
		if err := r.ParseForm(); err != nil {
			return http.StatusBadRequest, err.Error()
		}
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		i.mu.Lock()
		c, known := i.codes[r.Form.Get("code")]
		delete(i.codes, r.Form.Get("code"))
		i.mu.Unlock()
		id, secret, _ := r.BasicAuth()
		if !known || c.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || id != "daybook-web" || secret != "s3cret" {
			return http.StatusBadRequest, `{"error":"invalid_grant"}`
		}
		return http.StatusOK, `{"access_token":"x","token_type":"Bearer","id_token":"` + i.Sign("one", c.claims) + `"}`
	}
	return http.StatusNotFound, "{}"
}
