package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/daybookq/daybook/job"
)

// Issuer is an issuer whose tokens the server accepts.
type Issuer struct {
	Name     string // in the names of its people and programs, and in the logins of people
	URL      string // the claim iss, and where its description is, unless Keys are given
	Keys     []byte // a JSON Web Key Set; nil: the one that the issuer publishes
	Audience string // tokens must be for it
	Login    *Login // nil: no person logs in there
	Rules    []Rule // the first that matches counts
}

// Login is how people log in at an issuer.
type Login struct {
	ClientID, Secret string
	Redirect         string // the URL of this server's ReturnPath, as the issuer knows it
	Scopes           []string
}

// Rule gives roles to the tokens that have all its claims.
type Rule struct {
	Name string
	// Claims have a text, number or bool each. The token's claim must be equal to it, or a list that has it. A name with dots that
	// no claim has is a path into objects.
	Claims map[string]any
	Key    job.Key // what it permits, without a name
}

// Identity is what a verified token stands for.
type Identity struct {
	Key          job.Key // with the name of the token's subject and the end of the token
	Issuer, Rule string
}

// Refusals of tokens. Errors wrap one of them, and say more.
var (
	ErrToken       = errors.New("the token is refused")
	ErrNoRule      = errors.New("no rule is for the token")
	ErrUnavailable = errors.New("the keys of the issuer are not known yet")
)

const (
	// Skew is how far the clocks of issuers may differ from the server's.
	Skew = time.Minute
	// maxTokenBytes is more than a token has that fits into a header of usual servers.
	maxTokenBytes = 16 << 10
	// maxRemembered bounds the tokens that need not be verified again. One takes 400 bytes.
	maxRemembered = 20_000
)

// algorithms are those with asymmetric keys. Tokens that are signed with a shared secret, or not at all, are refused before anything
// else of them is looked at.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// Issuers are all issuers of a server. Any goroutine may use them.
type Issuers struct {
	log      *slog.Logger
	http     *http.Client
	known    atomic.Pointer[[]*source]
	replaced chan struct{}
	logins   chan struct{} // a place for each person who comes back

	mu         sync.RWMutex
	remembered map[[sha256.Size]byte]*Identity
}

// New returns the issuers. It does not connect. transport, if not nil, replaces the one of net/http.
func New(list []Issuer, log *slog.Logger, transport http.RoundTripper) (*Issuers, error) {
	i := &Issuers{log: log, http: newHTTPClient(transport), replaced: make(chan struct{}, 1), logins: make(chan struct{}, maxReturning)}
	return i, i.Replace(list)
}

// Replace puts other issuers in the place of all. The keys of those that have stayed the same remain known. All tokens are verified
// again. It fails if the keys of an issuer cannot be used, and then changes nothing.
func (i *Issuers) Replace(list []Issuer) error {
	var old []*source
	if known := i.known.Load(); known != nil {
		old = *known
	}
	next := make([]*source, 0, len(list))
	for _, issuer := range list {
		s := &source{Issuer: issuer, http: i.http, log: i.log.With("issuer", issuer.Name), kicked: make(chan struct{}, 1)}
		if issuer.Keys != nil {
			keys, err := parseKeys(issuer.Keys)
			if err != nil {
				return fmt.Errorf("issuer %s: %w", issuer.Name, err)
			}
			s.state.Store(&state{keys: keys})
		} else if at := slices.IndexFunc(old, func(s *source) bool {
			return s.URL == issuer.URL && s.Keys == nil && (s.Login == nil) == (issuer.Login == nil)
		}); at >= 0 {
			s.state.Store(old[at].state.Load())
		}
		next = append(next, s)
	}
	i.known.Store(&next)
	i.mu.Lock()
	i.remembered = map[[sha256.Size]byte]*Identity{}
	i.mu.Unlock()
	select {
	case i.replaced <- struct{}{}:
	default:
	}
	return nil
}

// SharingRunners returns the names of an issuer and one of its rules that shares runners with a key, or "" (job.Key.SharesRunners).
func (i *Issuers) SharingRunners(key *job.Key) (issuer, rule string) {
	for _, s := range *i.known.Load() {
		for at := range s.Rules {
			if key.SharesRunners(&s.Rules[at].Key) {
				return s.Name, s.Rules[at].Name
			}
		}
	}
	return "", ""
}

// Run reads the keys of issuers until ctx is done.
func (i *Issuers) Run(ctx context.Context) {
	for ctx.Err() == nil {
		reading, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		for _, s := range *i.known.Load() {
			running.Go(func() { s.run(reading) })
		}
		select {
		case <-ctx.Done():
		case <-i.replaced:
		}
		stop()
		running.Wait()
	}
}

// IsToken reports whether a text has the form of a token.
func IsToken(text string) bool { return len(text) <= maxTokenBytes && strings.Count(text, ".") == 2 }

// Verify returns the identity that a token stands for at a time in unix ms. Verifying takes as long as a signature does, and a
// verified token is remembered until it ends.
func (i *Issuers) Verify(token string, now int64) (*Identity, error) {
	digest := sha256.Sum256(unsafe.Slice(unsafe.StringData(token), len(token))) // a conversion would allocate
	i.mu.RLock()
	known := i.remembered[digest]
	i.mu.RUnlock()
	if known != nil && !known.Key.Expired(now) {
		return known, nil
	}
	table := i.known.Load()
	id, err := i.verify(*table, token, now)
	if err != nil {
		return nil, err
	}
	i.remember(table, digest, id, now)
	return id, nil
}

// remember remembers a token, unless the issuers were replaced while it was verified.
func (i *Issuers) remember(by *[]*source, digest [sha256.Size]byte, id *Identity, now int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known.Load() != by {
		return
	}
	if len(i.remembered) >= maxRemembered {
		for d, old := range i.remembered {
			if old.Key.Expired(now) {
				delete(i.remembered, d)
			}
		}
	}
	for d := range i.remembered { // any: an issuer's programs get their places back with their next requests
		if len(i.remembered) < maxRemembered {
			break
		}
		delete(i.remembered, d)
	}
	i.remembered[digest] = id
}

func (i *Issuers) verify(known []*source, token string, now int64) (*Identity, error) {
	if !IsToken(token) {
		return nil, fmt.Errorf("%w: it is no JSON Web Token", ErrToken)
	}
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, fmt.Errorf("%w: it is malformed, or its algorithm is not one of RS, PS, ES or EdDSA, which sign with asymmetric keys", ErrToken)
	}
	var unverified struct {
		Issuer string `json:"iss"`
	}
	if err := decode(signed.UnsafePayloadWithoutVerification(), &unverified); err != nil {
		return nil, fmt.Errorf("%w: its claims are malformed", ErrToken)
	}
	at := slices.IndexFunc(known, func(s *source) bool { return s.URL == unverified.Issuer })
	if at < 0 {
		return nil, fmt.Errorf("%w: its issuer is not one of the configuration", ErrToken)
	}
	return known[at].verify(token, signed.Signatures[0].Header, known[at].Audience, "", now)
}

// verify verifies a token of the issuer. With a nonce, it must have that.
func (s *source) verify(token string, header jose.Header, audience, nonce string, now int64) (*Identity, error) {
	keys, err := s.keysFor(header)
	if err != nil {
		return nil, err
	}
	verified, err := oidc.NewVerifier(s.URL, keys, &oidc.Config{ClientID: audience, SupportedSigningAlgs: algorithmNames, SkipExpiryCheck: true}).Verify(context.Background(), token)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrToken, s.reason(err, audience))
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w: its claims are malformed", ErrToken)
	}
	ends, err := checkTimes(claims, time.UnixMilli(now))
	if err != nil {
		return nil, err
	}
	if verified.Subject == "" {
		return nil, fmt.Errorf("%w: it has no subject", ErrToken)
	}
	if nonce != "" {
		if verified.Nonce != nonce {
			return nil, fmt.Errorf("%w: it was made for another log-in", ErrToken)
		}
		if azp := claims["azp"]; len(verified.Audience) > 1 && azp != audience {
			return nil, fmt.Errorf("%w: it was made for another program", ErrToken)
		}
	}
	for r := range s.Rules {
		if rule := &s.Rules[r]; rule.matches(claims) {
			id := &Identity{Key: rule.Key, Issuer: s.Name, Rule: rule.Name}
			id.Key.Name, id.Key.ExpiresAt = nameOf(s.Name, verified.Subject), ends.UnixMilli()
			return id, nil
		}
	}
	return nil, fmt.Errorf("%w: issuer %s has no rule that matches the claims of %s", ErrNoRule, s.Name, nameOf(s.Name, verified.Subject))
}

// algorithmNames are algorithms, as package oidc takes them.
var algorithmNames = func() (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}()

// reason says which check of package oidc has refused a token, without its contents.
func (s *source) reason(err error, audience string) string {
	if strings.Contains(err.Error(), "expected audience") {
		return fmt.Sprintf("it is for another audience than %q", audience)
	}
	return "its signature is not one of issuer " + s.Name
}

// checkTimes checks exp, nbf and iat, and returns when the token ends.
func checkTimes(claims map[string]any, now time.Time) (ends time.Time, err error) {
	at := func(name string) (t time.Time, given bool, err error) {
		value, given := claims[name]
		seconds, ok := value.(float64)
		if given && (!ok || seconds < 0 || seconds > job.MaxTimeMs/1000) {
			return t, given, fmt.Errorf("%w: its claim %s is not a time", ErrToken, name)
		}
		return time.UnixMilli(int64(seconds * 1000)), given, nil
	}
	exp, given, err := at("exp")
	switch ends = exp.Add(Skew); {
	case err != nil:
		return ends, err
	case !given:
		return ends, fmt.Errorf("%w: it never ends; issuers must set exp", ErrToken)
	case !now.Before(ends):
		return ends, fmt.Errorf("%w: it has expired", ErrToken)
	}
	for _, name := range []string{"nbf", "iat"} {
		if begins, given, err := at(name); err != nil {
			return ends, err
		} else if given && begins.After(now.Add(Skew)) {
			return ends, fmt.Errorf("%w: its claim %s is in the future", ErrToken, name)
		}
	}
	return ends, nil
}

// KeyOf returns what a rule of an issuer permits now, under a name, or nil if there is no such rule any more.
func (i *Issuers) KeyOf(issuer, rule, name string) *job.Key {
	for _, s := range *i.known.Load() {
		if s.Name != issuer {
			continue
		}
		for r := range s.Rules {
			if s.Rules[r].Name == rule {
				key := s.Rules[r].Key
				key.Name = name
				return &key
			}
		}
	}
	return nil
}
