package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
)

// ReturnPath is where an issuer sends people back to.
const ReturnPath = "/login/callback"

// FlowTime is how long a person may take at the issuer.
const FlowTime = 10 * time.Minute

// maxReturning bounds the people for whom the server asks the issuer at the same time. Anybody can send any code.
const maxReturning = 8

// Refusals of log-ins.
var (
	ErrNoLogin = errors.New("no issuer is configured for people")
	ErrFlow    = errors.New("the log-in did not succeed")
	ErrBusy    = errors.New("too many people log in at this moment")
)

// flow is what the server must know when a person comes back. The browser keeps it in a cookie. It needs no signature: whoever can
// write this cookie can also begin a log-in, and get a signed one. The issuer binds the code to Verifier, and the token to Nonce.
type flow struct {
	State, Nonce, Verifier string
	Next                   string // the local path to show then
	Until                  int64  // unix ms
}

// Begin begins the log-in of a person. It returns the address at the issuer, and the text for Finish.
func (i *Issuers) Begin(next string, now time.Time) (address, kept string, err error) {
	s := i.people()
	if s == nil {
		return "", "", ErrNoLogin
	}
	known := s.state.Load()
	if known == nil {
		return "", "", fmt.Errorf("%w: issuer %s has not answered", ErrUnavailable, s.Name)
	}
	f := flow{rand.Text(), rand.Text(), oauth2.GenerateVerifier(), LocalPath(next), now.Add(FlowTime).UnixMilli()}
	text, err := json.Marshal(&f)
	if err != nil {
		return "", "", err
	}
	return s.oauth(known).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), base64.RawURLEncoding.EncodeToString(text), nil
}

// Finish ends the log-in of a person who came back from the issuer with a code and a state. kept is the text of Begin.
func (i *Issuers) Finish(ctx context.Context, kept, code, state string, now time.Time) (_ *Identity, next string, err error) {
	s := i.people()
	if s == nil {
		return nil, "", ErrNoLogin
	}
	var f flow
	text, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || kept == "" || decode(text, &f) != nil || f.State == "" || f.Nonce == "" || f.Verifier == "" {
		return nil, "", fmt.Errorf("%w: it did not begin in this browser, or took more than ten minutes; open /login again", ErrFlow)
	}
	switch {
	case now.UnixMilli() >= f.Until:
		return nil, "", fmt.Errorf("%w: it took more than ten minutes; open /login again", ErrFlow)
	case subtle.ConstantTimeCompare([]byte(f.State), []byte(state)) != 1:
		return nil, "", fmt.Errorf("%w: it is not the one that began in this browser; open /login again", ErrFlow)
	case code == "":
		return nil, "", fmt.Errorf("%w: the issuer has sent no code", ErrFlow)
	}
	known := s.state.Load()
	if known == nil {
		return nil, "", fmt.Errorf("%w: issuer %s has not answered", ErrUnavailable, s.Name)
	}
	select {
	case i.logins <- struct{}{}:
		defer func() { <-i.logins }()
	default:
		return nil, "", ErrBusy
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, i.http), askTime)
	defer cancel()
	token, err := s.oauth(known).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
			i.log.Warn("an issuer refused the code of a log-in", "issuer", s.Name, "error", refused.ErrorCode)
			return nil, "", fmt.Errorf("%w: issuer %s refused the code", ErrFlow, s.Name)
		}
		i.log.Warn("an issuer did not exchange the code of a log-in", "issuer", s.Name, "error", withoutQuery(err))
		return nil, "", fmt.Errorf("%w: issuer %s did not answer", ErrUnavailable, s.Name)
	}
	raw, _ := token.Extra("id_token").(string)
	signed, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil || len(raw) > maxAnswer {
		return nil, "", fmt.Errorf("%w: issuer %s has sent no ID token, or one that is not signed with an asymmetric key", ErrFlow, s.Name)
	}
	id, err := s.verify(raw, signed.Signatures[0].Header, s.Login.ClientID, f.Nonce, now.UnixMilli())
	return id, LocalPath(f.Next), err
}

// withoutQuery returns an error without the address of the request.
func withoutQuery(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// people returns the issuer at which people log in, or nil.
func (i *Issuers) people() *source {
	for _, s := range *i.known.Load() {
		if s.Login != nil {
			return s
		}
	}
	return nil
}

func (s *source) oauth(known *state) *oauth2.Config {
	return &oauth2.Config{ClientID: s.Login.ClientID, ClientSecret: s.Login.Secret, Endpoint: known.endpoint, RedirectURL: s.Login.Redirect, Scopes: s.Login.Scopes}
}

// maxNext bounds the local path of a log-in, which is in a cookie.
const maxNext = 1 << 10

// LocalPath returns a path of this server with its query and fragment, or / for any other text: it must never lead to another site.
func LocalPath(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxNext || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(text, "/") ||
		strings.HasPrefix(text, "//") || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == '\\' || c >= 127 }) {
		return "/"
	}
	return text
}
