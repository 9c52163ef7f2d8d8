package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"time"
)

// Credentials are the parts of a request that say who has sent it. The strings belong to the request.
type Credentials struct {
	// Authorization are the values of the header. If there are any, cookies are not looked at, so that a wrong key is refused
	// and never replaced by a login.
	Authorization []string
	// Logins are the texts of logins in cookies. A request of an honest browser has one at most.
	Logins LoginTexts
	// TokenNeeded: a request with a login changes something, so it also needs Token, which only a page of this server knows.
	TokenNeeded bool
	Token       string
	// Certificate is the verified one of the client; nil: it has none. It counts if there is nothing else.
	Certificate *x509.Certificate
}

// LoginTexts are up to two texts: one is a login, and two are refused, because a page of a neighbouring site may have set the other.
type LoginTexts [2]string

// HeaderToken has the token that pages of this server send with changes.
const HeaderToken = "Daybook-CSRF"

// TokenOf returns the token of a login, which pages of this server read, and pages of other sites cannot.
func TokenOf(login string) string {
	mac := hmac.New(sha256.New, []byte(login))
	mac.Write([]byte("daybook csrf"))
	return hex.EncodeToString(mac.Sum(nil))
}

// GoodToken compares a token in a time that does not depend on it.
func GoodToken(login, token string) bool { return hmac.Equal([]byte(TokenOf(login)), []byte(token)) }

// CredentialsOf returns the credentials of a request.
func CredentialsOf(r *http.Request, a Access) (c Credentials) {
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificate = r.TLS.PeerCertificates[0]
	}
	if c.Authorization = r.Header["Authorization"]; len(c.Authorization) > 0 {
		return c
	}
	if Foreign(r) { // such pages send keys; the browser adds a cookie or certificate without their doing
		c.Certificate = nil
		return c
	}
	if len(r.Header["Cookie"]) == 0 {
		return c
	}
	c.Logins = loginsOf(r)
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		// No image, link or form makes a browser send an Origin with a GET. A WebSocket always has one.
		c.TokenNeeded = a.changes && len(r.Header["Origin"]) == 0
	default:
		c.TokenNeeded = true
	}
	if tokens := r.Header[HeaderTokenKey]; len(tokens) == 1 {
		c.Token = tokens[0]
	}
	return c
}

// Foreign reports whether a page of an origin of --allow-origin has sent a request.
func Foreign(r *http.Request) bool {
	origin := r.Header["Origin"]
	return len(origin) > 0 && !sameOrigin(origin, r.Host)
}

// HeaderTokenKey is HeaderToken as net/http spells it.
var HeaderTokenKey = textproto.CanonicalMIMEHeaderKey(HeaderToken)

// Clone returns credentials that outlive the request. A stream has them: the token was checked when it began.
func (c Credentials) Clone() (of Credentials) {
	for _, value := range c.Authorization { // the strings of a header share memory
		of.Authorization = append(of.Authorization, strings.Clone(value))
	}
	for i, text := range c.Logins {
		of.Logins[i] = strings.Clone(text)
	}
	of.Certificate = c.Certificate
	return of
}

// The names of cookies. A browser accepts a cookie whose name begins with __Host- only over TLS and from this host itself, so no
// neighbouring site can set it.
const (
	hostPrefix = "__Host-"
	// LoginCookie has the text of a login.
	LoginCookie = "daybook"
	// FlowCookie has what the server must know when a person comes back from an issuer.
	FlowCookie = "daybook-login"
)

// private reports whether the browser reaches the server by TLS. Only a server on loopback is used without it: for any other host, a
// proxy speaks TLS, or the browser refuses the cookie.
func private(r *http.Request) bool {
	if conn := ConnectionOf(r); conn != nil && conn.secure != nil {
		return true
	}
	name := strings.TrimSuffix(strings.ToLower(hostName(r.Host)), ".")
	addr, err := netip.ParseAddr(name)
	return name != "localhost" && (err != nil || !addr.IsLoopback())
}

func cookieName(r *http.Request, name string) string {
	if private(r) {
		return hostPrefix + name
	}
	return name
}

// loginsOf returns the texts in the cookies of a request.
func loginsOf(r *http.Request) (texts LoginTexts) {
	found := 0
	for _, cookie := range r.CookiesNamed(cookieName(r, LoginCookie)) {
		if found < len(texts) {
			texts[found] = cookie.Value
			found++
		}
	}
	return texts
}

// CookieOf returns the value of a cookie that SetCookie has set, or "" if there is none, or more than one.
func CookieOf(r *http.Request, name string) string {
	found := r.CookiesNamed(cookieName(r, name))
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// SetCookie returns the header Set-Cookie for a cookie that no script reads. With "" as its value, the browser forgets it.
func SetCookie(r *http.Request, name, value string, life time.Duration, same http.SameSite) string {
	c := http.Cookie{Name: cookieName(r, name), Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, Secure: private(r), SameSite: same}
	if value == "" {
		c.MaxAge = -1
	}
	return c.String()
}
