package oidc

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
)

const (
	// Keys are read every keysEvery. If the issuer is away, those that are known serve for keysLife.
	keysEvery = time.Hour
	keysLife  = 24 * time.Hour
	// An attacker can send tokens with any number of unknown keys. They make the server ask the issuer once in minRead.
	minRead = 10 * time.Second
	// After a failure, the issuer is asked again after firstRetry, and then twice as late each time, up to lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute

	maxAnswer   = 1 << 20 // bytes of an issuer's answer
	maxKeys     = 100     // of an issuer
	askTime     = 10 * time.Second
	minRSABytes = 256 // 2048 bits
)

// source is an issuer with what is known of it.
type source struct {
	Issuer
	http   *http.Client
	log    *slog.Logger
	kicked chan struct{} // a token names an unknown key
	state  atomic.Pointer[state]
}

// state is what an issuer has said.
type state struct {
	keys     []jose.JSONWebKey
	read     time.Time // zero: the keys are of a file
	endpoint oauth2.Endpoint
}

// run reads the description and the keys of the issuer until ctx is done.
func (s *source) run(ctx context.Context) {
	if s.Keys != nil {
		return
	}
	wait, retry := time.Duration(0), firstRetry
	if s.state.Load() != nil { // of the issuers before these
		wait = minRead
	}
	for s.pause(ctx, wait) {
		next, err := s.read(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if retry == firstRetry {
				s.log.Warn("cannot read the keys of an issuer; it is asked again and again, and the keys that are known serve for 24 h", "error", err)
			}
			wait, retry = retry, min(2*retry, lastRetry)
		default:
			if retry > firstRetry || s.state.Load() == nil {
				s.log.Info("the keys of an issuer are known", "keys", len(next.keys))
			}
			s.state.Store(next)
			wait, retry = keysEvery, firstRetry
		}
	}
}

// pause waits, and ends early if a token names an unknown key, but not before minRead has passed. It reports whether ctx continues.
func (s *source) pause(ctx context.Context, wait time.Duration) bool {
	least := min(wait, minRead)
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	}
	timer.Reset(wait - least)
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.kicked:
	}
	return ctx.Err() == nil
}

// read reads the description and the keys of the issuer.
func (s *source) read(ctx context.Context) (*state, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.http), askTime)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, s.URL)
	if err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	var where struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&where); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	next := &state{read: time.Now(), endpoint: provider.Endpoint()}
	next.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if s.Login != nil && s.Login.Secret == "" || len(where.Methods) > 0 && !slices.Contains(where.Methods, "client_secret_basic") {
		next.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	addresses := []string{where.Keys}
	if s.Login != nil {
		addresses = append(addresses, next.endpoint.AuthURL, next.endpoint.TokenURL)
	}
	for _, address := range addresses {
		if err := CheckURL(address); err != nil {
			return nil, fmt.Errorf("the description names %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.Keys, nil)
	if err != nil {
		return nil, err
	}
	res, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the keys: %w", err)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("read the keys: %s answers %s", where.Keys, res.Status)
	}
	next.keys, err = parseKeys(text)
	return next, err
}

// parseKeys reads a JSON Web Key Set. It skips the keys with which no token can be signed here.
func parseKeys(text []byte) (keys []jose.JSONWebKey, err error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := decode(text, &set); err != nil {
		return nil, fmt.Errorf("the key set is malformed: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys; %d are allowed", len(set.Keys), maxKeys)
	}
	for _, one := range set.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(one); err != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue
		}
		if public, ok := key.Key.(*rsa.PublicKey); ok && public.Size() < minRSABytes {
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no public key for signatures; RSA keys need 2048 bits")
	}
	return keys, nil
}

// CheckKeys returns an error unless a text is a JSON Web Key Set with which tokens can be verified.
func CheckKeys(text []byte) error {
	_, err := parseKeys(text)
	return err
}

// keysFor returns the keys that may have signed a token. It never waits: if they are not known, the issuer is asked, and the client
// repeats its request after a moment.
func (s *source) keysFor(header jose.Header) (fitting keySet, err error) {
	known := s.state.Load()
	if known == nil || !known.read.IsZero() && time.Since(known.read) > keysLife {
		return nil, fmt.Errorf("%w: issuer %s has not answered", ErrUnavailable, s.Name)
	}
	for _, key := range known.keys {
		if (header.KeyID == "" || key.KeyID == header.KeyID) && (key.Algorithm == "" || key.Algorithm == header.Algorithm) {
			fitting = append(fitting, key)
		}
	}
	switch {
	case len(fitting) > 0:
		return fitting, nil
	case known.read.IsZero() || time.Since(known.read) < minRead:
		return nil, fmt.Errorf("%w: it is signed with a key that issuer %s does not have", ErrToken, s.Name)
	}
	select {
	case s.kicked <- struct{}{}:
	default:
	}
	return nil, fmt.Errorf("%w: the token is signed with a new key of issuer %s, or with none of it; it is being asked", ErrUnavailable, s.Name)
}

// keySet verifies a signature with the keys that fit to it.
type keySet []jose.JSONWebKey

// VerifySignature returns the payload of a token.
func (k keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	for i := range k {
		if payload, err := signed.Verify(&k[i]); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key has made the signature")
}

// CheckURL refuses addresses of issuers that others could answer: they need TLS, unless they are on this machine.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || strings.ContainsAny(text, " \t\n") {
		return fmt.Errorf("%q, which is no URL", text)
	}
	addr, _ := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && !(u.Scheme == "http" && (u.Hostname() == "localhost" || addr.IsLoopback())) {
		return fmt.Errorf("%q, which has no TLS; only an issuer on this machine may have none", text)
	}
	return nil
}

// newHTTPClient returns a client that bounds what an issuer can cost. It follows no redirects.
func newHTTPClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: askTime}).DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: askTime, ResponseHeaderTimeout: askTime, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, MaxConnsPerHost: 8,
		}
	}
	return &http.Client{
		Transport: bounded{transport}, Timeout: askTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded bounds the bodies of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxAnswer), res.Body}
	}
	return res, err
}
