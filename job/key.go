package job

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// A key lets a program or a person use the server. The server stores the SHA-256 of its text, and never the text itself.

// Role permits some operations. A key can have several roles.
type Role uint8

const (
	RoleAdmin    Role = iota + 1 // everything
	RoleOperator                 // jobs, queues and handlers
	RoleProducer                 // creates jobs and blobs, and reads them
	RoleWorker                   // from claims to completions, with logs and blobs
	RoleReader                   // reads, and changes nothing
	RoleBackup                   // backups
	RoleMetrics                  // metrics and figures
	numRoles
)

var roleNames = [numRoles]string{"", "admin", "operator", "producer", "worker", "reader", "backup", "metrics"}

// String returns the name of the role.
func (r Role) String() string { return roleNames[r] }

// ParseRole is the inverse of String.
func ParseRole(name string) (Role, error) {
	if i := slices.Index(roleNames[1:], name); i >= 0 {
		return Role(i + 1), nil
	}
	return 0, fmt.Errorf("role %q is none of %s", name, strings.Join(roleNames[1:], ", "))
}

// Roles is a set of roles.
type Roles uint16

// RolesOf returns a set.
func RolesOf(list ...Role) (s Roles) {
	for _, r := range list {
		s |= 1 << r
	}
	return s
}

// Has reports whether the set has at least one role of the other set.
func (s Roles) Has(any Roles) bool { return s&any != 0 }

// Names returns the names of the roles.
func (s Roles) Names() (names []string) {
	for r := RoleAdmin; r < numRoles; r++ {
		if s.Has(RolesOf(r)) {
			names = append(names, r.String())
		}
	}
	return names
}

// Key is a key as the server stores it.
type Key struct {
	Actor // its name is unique, and the middle part of the key's text
	Roles Roles
	// HidePayloads hides payloads, outputs and errors from a reader. Redact hides the values of the fields with these names in
	// payloads and outputs that are JSON. It is sorted.
	HidePayloads bool
	Redact       []string
	// RunnerPrefix begins each id of a runner that the key names; "": any id. A key with a scope
	// has one, so that nobody takes over the runners of others.
	RunnerPrefix string
	Rates        *Rates // nil: the key may be used as fast as the server can serve it
	ExpiresAt    int64  // unix ms; 0: never
	// Generation counts the secrets that the key ever had. Rotating it adds one.
	Generation int
	Sum        KeySum     // of the text with the newest secret
	Old        *OldSecret // the secret before it, if it was good for longer; most keys have none, so a pointer saves memory
	// LastUse is the hour of the last use on this node, in unix ms; 0: never. It is in memory only: nil if the key is not from there.
	LastUse *atomic.Int64
}

// OldSecret is a secret that was replaced.
type OldSecret struct {
	Sum   KeySum // of the key's text with it
	Until int64  // it is no longer good, in unix ms
}

// Used notes that the key is used at a time. It costs a store once an hour.
func (k *Key) Used(now int64) {
	if hour := now - now%hourMs; k.LastUse != nil && k.LastUse.Load() < hour {
		k.LastUse.Store(hour)
	}
}

const hourMs = 60 * 60 * 1000

// KeySum is the SHA-256 of the text of a key.
type KeySum [sha256.Size]byte

// String returns the sum in hexadecimal digits.
func (s KeySum) String() string { return hex.EncodeToString(s[:]) }

// ParseKeySum is the inverse of String.
func ParseKeySum(text string) (s KeySum, err error) {
	if n, bad := hex.Decode(s[:], []byte(text[:min(len(text), 2*len(s))])); bad != nil || n != len(s) || s.String() != text {
		return KeySum{}, errors.New("a SHA-256 has 64 hexadecimal digits in lower case")
	}
	return s, nil
}

// Expired reports whether the key is of no use any more at a time.
func (k *Key) Expired(now int64) bool { return k.ExpiresAt != 0 && now >= k.ExpiresAt }

// Matches reports whether a text with this sum is the key, at a time. It compares in a time that does not depend on the sums.
func (k *Key) Matches(sum *KeySum, now int64) bool {
	return subtle.ConstantTimeCompare(sum[:], k.Sum[:]) == 1 || k.Old != nil && now < k.Old.Until && subtle.ConstantTimeCompare(sum[:], k.Old.Sum[:]) == 1
}

// keyRules are the rules of keys. The document of a key has the form of a command's fields. A key belongs to no client, and its
// summary is the first of its roles. The newest version of each key is in memory, because each request needs one.
var keyRules = DocumentRules{
	Name: "key", MaxBytes: MaxAccessKeyBytes, MaxNames: MaxAccessKeys, MaxTotal: MaxAccessKeysBytes, NotFound: KeyNotFound, TooMany: TooManyAccessKeys,
	Check: func(p *PutDocument) error {
		if p.Client != "" {
			return errors.New("a key belongs to no client")
		}
		_, err := DecodeKey(p.Name, p.Document)
		return err
	},
}

// By returns the actor of the key, and the zero actor for a nil key. The caller must not change it.
func (k *Key) By() *Actor {
	if k == nil {
		return &nobody
	}
	return &k.Actor
}

var nobody Actor

// Permits is Scope.Permits, and also checks the runner that a command names.
func (k *Key) Permits(cmd Command) error {
	if k == nil {
		return nil
	}
	runner := ""
	switch c := cmd.(type) {
	case Claim:
		runner = c.Runner
	case Tickle:
		runner = c.Runner
	case Complete:
		runner = c.Runner
	case OpenSession:
		runner = c.Runner
	}
	if err := k.PermitsRunner(runner); err != nil {
		return err
	}
	return k.Scope.Permits(cmd)
}

// PermitsRunner returns an ErrOutOfScope unless the key may name a runner. It may always name none.
func (k *Key) PermitsRunner(id string) error {
	if k == nil || id == "" || k.RunnerPrefix == "" || strings.HasPrefix(id, k.RunnerPrefix) && len(id) > len(k.RunnerPrefix) {
		return nil
	}
	return fmt.Errorf("%w runner %s: the ids of its runners begin with %s", ErrOutOfScope, id, k.RunnerPrefix)
}

// SharesRunners reports whether two keys for different clients may name the same runner: whoever names a runner takes over its
// claims. Keys without a prefix do not count: they are for all clients and may name every runner.
func (k *Key) SharesRunners(other *Key) bool {
	a, b := k.RunnerPrefix, other.RunnerPrefix
	return a != "" && b != "" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) && !slices.Equal(k.Clients, other.Clients)
}

// DefaultRunnerPrefix returns the runner prefix of a key, or of a rule of an issuer, with a name. The colon keeps
// apart the runners of "team" and "team-b".
func DefaultRunnerPrefix(name string) string { return name + ":" }

// Redacts reports whether the key hides the values of fields with a name.
func (k *Key) Redacts(name string) bool { return contains(k.Redact, name) }

// Conceals reports whether the key hides something of jobs from its reader.
func (k *Key) Conceals() bool { return k != nil && (k.HidePayloads || k.Redact != nil) }

// wholeServer are the roles of keys without a scope: what they permit is about all clients.
var wholeServer = RolesOf(RoleAdmin, RoleBackup, RoleMetrics)

// Check returns an error unless the parts of the key go together. It does not check the sums.
func (k *Key) Check() error {
	for _, list := range []struct {
		field string
		names []string
	}{{"clients", k.Clients}, {"types", k.Types}} {
		if err := CheckScopeNames(list.field, list.names); err != nil {
			return err
		}
	}
	if k.Redact != nil {
		if len(k.Redact) > MaxRedacted || len(k.Redact) == 0 {
			return fmt.Errorf("redact must have 1 to %d names", MaxRedacted)
		}
		for i, name := range k.Redact {
			if err := CheckText("redact", name, 1, MaxRedactedBytes); err != nil {
				return err
			}
			if i > 0 && name <= k.Redact[i-1] {
				return errors.New("redact must have each name once, in order")
			}
		}
	}
	if k.RunnerPrefix != "" {
		if err := CheckText("runner_prefix", k.RunnerPrefix, 1, MaxRunnerPrefixBytes); err != nil {
			return err
		}
	}
	if k.Rates != nil {
		if err := k.Rates.Check(); err != nil {
			return err
		}
	}
	scoped := !k.All()
	switch {
	case scoped && k.Roles.Has(wholeServer):
		return fmt.Errorf("a key for some clients or types cannot have the roles %s: they are about all of them", strings.Join((k.Roles&wholeServer).Names(), ", "))
	case scoped && k.RunnerPrefix == "":
		return errors.New("runner_prefix is missing: a key for some clients or types names only its own runners")
	case (k.HidePayloads || k.Redact != nil) && k.Roles != RolesOf(RoleReader):
		return errors.New("payloads can be hidden only from keys with no other role than reader")
	case k.HidePayloads && k.Redact != nil:
		return errors.New("a key hides payloads or redacts them, not both")
	}
	return nil
}

// Document returns the key's document.
func (k *Key) Document() []byte {
	f := k.permitted()
	f.text("sha256", k.Sum.String())
	if k.Old != nil {
		f.text("old_sha256", k.Old.Sum.String())
		f.int("old_until", k.Old.Until)
	}
	return f
}

// permitted returns the fields that say what the key permits.
func (k *Key) permitted() fields {
	f := make(fields, 0, 256)
	f.texts("roles", k.Roles.Names())
	f.texts("clients", k.Clients)
	f.texts("types", k.Types)
	f.text("runner_prefix", k.RunnerPrefix)
	if k.HidePayloads {
		f.text("hide_payloads", "true")
	}
	f.texts("redact", k.Redact)
	if k.Rates != nil {
		for i, v := range k.Rates.each() {
			f.int("rate_"+RateNames[i], *v)
		}
	}
	f.int("expires_at", k.ExpiresAt)
	f.int("generation", int64(k.Generation))
	return f
}

// DecodeKey is the inverse of Document.
func DecodeKey(name string, document []byte) (k Key, err error) {
	r := fieldReader{rest: string(document)}
	k.Name = name
	var old OldSecret
	sum := func(raw string) KeySum {
		s, err := ParseKeySum(raw)
		if err != nil {
			r.fail(err)
		}
		return s
	}
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "roles":
			for name := range strings.SplitSeq(raw, ",") {
				role, err := ParseRole(name)
				if err != nil {
					r.fail(err)
				}
				k.Roles |= RolesOf(role)
			}
		case "clients":
			k.Clients = r.names(key, raw)
		case "types":
			k.Types = r.names(key, raw)
		case "runner_prefix":
			k.RunnerPrefix = r.bounded(key, raw, MaxRunnerPrefixBytes)
		case "hide_payloads":
			k.HidePayloads = r.only(key, raw, "true")
		case "redact":
			for name := range strings.SplitSeq(raw, ",") {
				k.Redact = append(k.Redact, r.text(name))
			}
		case "expires_at":
			k.ExpiresAt = r.int(key, raw, 1, MaxTimeMs)
		case "generation":
			k.Generation = int(r.int(key, raw, 1, 1<<31))
		case "sha256":
			k.Sum = sum(raw)
		case "old_sha256":
			old.Sum = sum(raw)
		case "old_until":
			old.Until = r.int(key, raw, 1, MaxTimeMs)
		default:
			name, _ := strings.CutPrefix(key, "rate_")
			if name == key || (&Rates{}).Named(name) == nil {
				r.unknown(key)
				break
			}
			if k.Rates == nil {
				k.Rates = &Rates{}
			}
			*k.Rates.Named(name) = r.int(key, raw, 1, MaxRate)
		}
	}
	if old.Until != 0 {
		k.Old = &old
	}
	switch {
	case r.err != nil:
		return k, fmt.Errorf("key %s: %w", name, r.err)
	case k.Roles == 0 || k.Generation == 0 || k.Sum == KeySum{}:
		return k, fmt.Errorf("key %s: roles, generation or sha256 is missing", name)
	case (old.Until == 0) != (old.Sum == KeySum{}):
		return k, fmt.Errorf("key %s: old_sha256 and old_until are given together", name)
	case k.Check() != nil:
		return k, fmt.Errorf("key %s: %w", name, k.Check())
	case !bytes.Equal(k.Document(), document):
		return k, fmt.Errorf("key %s: its document is not in the only form that it has", name)
	}
	k.ownTexts()
	return k, nil
}

// ownTexts copies the texts, which are parts of the key's document. The server keeps 100,000 keys in memory, and not their documents.
func (k *Key) ownTexts() {
	k.RunnerPrefix = strings.Clone(k.RunnerPrefix)
	for _, list := range [][]string{k.Clients, k.Types, k.Redact} {
		for i, text := range list {
			list[i] = strings.Clone(text)
		}
	}
}

// The text of a key is dbk_NAME_SECRET. The secret is 32 random bytes, and the first 4 bytes of the SHA-256 of the text before them,
// in 72 hexadecimal digits in lower case. So programs that look for secrets in source code can tell a key from other texts.
const (
	keyPrefix   = "dbk_"
	SecretBytes = 32
	checkDigits = 8
	secretChars = 2*SecretBytes + checkDigits
	maxKeyText  = len(keyPrefix) + MaxNameBytes + 1 + secretChars
)

// KeyText returns the text of a key.
func KeyText(name string, secret [SecretBytes]byte) string {
	text := keyPrefix + name + "_" + hex.EncodeToString(secret[:])
	check := sha256.Sum256([]byte(text))
	return text + hex.EncodeToString(check[:checkDigits/2])
}

// ErrKeyText: a text cannot be a key.
var ErrKeyText = errors.New("a key has the form dbk_NAME_SECRET; this text does not, or a part of it is missing")

// ParseKeyText returns the name in the text of a key, and the sum of the text. It allocates nothing.
func ParseKeyText(text string) (name string, sum KeySum, err error) {
	head := len(text) - secretChars
	if head < len(keyPrefix)+2 || len(text) > maxKeyText || text[:len(keyPrefix)] != keyPrefix || text[head-1] != '_' {
		return "", sum, ErrKeyText
	}
	for i := head; i < len(text); i++ {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", sum, ErrKeyText
		}
	}
	var all [maxKeyText]byte
	copy(all[:], text)
	var check [checkDigits / 2]byte
	_, _ = hex.Decode(check[:], all[len(text)-checkDigits:len(text)]) // these are digits
	want := sha256.Sum256(all[:len(text)-checkDigits])
	if name = text[len(keyPrefix) : head-1]; CheckName("key", name) != nil || check != [checkDigits / 2]byte(want[:checkDigits/2]) {
		return "", sum, ErrKeyText
	}
	return name, sha256.Sum256(all[:len(text)]), nil
}

// The key of a request is in its context, so that no path from a request to the journal can lose it: every command that is proposed
// has the actor of its context.

type keyOfContext struct{}

// WithKey returns a context for the requests of a key; nil: of anybody.
func WithKey(ctx context.Context, key *Key) context.Context {
	return context.WithValue(ctx, keyOfContext{}, key)
}

// KeyOf returns the key of a context, or nil.
func KeyOf(ctx context.Context) *Key {
	key, _ := ctx.Value(keyOfContext{}).(*Key)
	return key
}
