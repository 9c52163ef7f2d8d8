package job

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// A login lets a browser use the server in the name of a key, or of a person whom an issuer of tokens has named. The browser has a
// random text in a cookie. The server stores the SHA-256 of the text, and never the text itself.

// Login is a login as the server stores it. Its document's name is the SHA-256 of its text in hexadecimal digits.
type Login struct {
	Name  string
	By    string // who has logged in: the name of the key, or the name that the issuer's rules give the person
	Until int64  // unix ms
	// KeySum is the sum of the key's newest text at that time. A key that gets another secret, or is made again after its
	// revocation, has another one, and its logins have ended. It is zero if an issuer has named the person.
	KeySum KeySum
	// Issuer and Rule are the names of the issuer and of its rule that gave the person roles; "" for a key.
	Issuer, Rule string
}

// loginRules are the rules of logins. A login belongs to no client, and its summary says who has logged in. It has one version, and
// no route reads its document. All logins are in memory, because each request of a browser needs one.
var loginRules = DocumentRules{
	Name: "login", MaxBytes: MaxLoginBytes, MaxNames: MaxLogins, MaxTotal: MaxLoginsBytes, NotFound: LoginNotFound, TooMany: TooManyLogins,
	Check: func(p *PutDocument) error {
		if p.Client != "" {
			return errors.New("a login belongs to no client")
		}
		_, err := DecodeLogin(p.Name, p.Document)
		return err
	},
}

// Document returns the login's document.
func (l *Login) Document() []byte {
	f := make(fields, 0, 256)
	f.text("by", l.By)
	f.int("until", l.Until)
	if l.KeySum != (KeySum{}) {
		f.text("key_sha256", l.KeySum.String())
	}
	f.text("issuer", l.Issuer)
	f.text("rule", l.Rule)
	return f
}

// DecodeLogin is the inverse of Document.
func DecodeLogin(name string, document []byte) (l Login, err error) {
	r := fieldReader{rest: string(document)}
	l.Name = name
	for key, raw, ok := r.next(); ok; key, raw, ok = r.next() {
		switch key {
		case "by":
			l.By = r.bounded(key, raw, MaxNameBytes)
		case "until":
			l.Until = r.int(key, raw, 1, MaxTimeMs)
		case "key_sha256":
			if l.KeySum, err = ParseKeySum(raw); err != nil {
				r.fail(err)
			}
		case "issuer":
			l.Issuer = r.name(key, raw)
		case "rule":
			l.Rule = r.name(key, raw)
		default:
			r.unknown(key)
		}
	}
	switch {
	case r.err != nil:
		return l, fmt.Errorf("login %s: %w", name, r.err)
	case l.By == "" || l.Until == 0:
		return l, fmt.Errorf("login %s: by or until is missing", name)
	case (l.KeySum == KeySum{}) == (l.Issuer == "") || (l.Issuer == "") != (l.Rule == ""):
		return l, fmt.Errorf("login %s: it is either of a key, with key_sha256, or of an issuer, with issuer and rule", name)
	case !bytes.Equal(l.Document(), document):
		return l, fmt.Errorf("login %s: its document is not in the only form that it has", name)
	}
	return l, nil
}

// Ended reports whether the login is of no use any more at a time.
func (l *Login) Ended(now int64) bool { return now >= l.Until }

// LoginTextBytes is the length of the text of a login: SecretBytes random bytes in hexadecimal digits.
const LoginTextBytes = 2 * SecretBytes

// LoginText returns the text of a login.
func LoginText(secret [SecretBytes]byte) string { return hex.EncodeToString(secret[:]) }

// LoginName is the name of a login, in digits.
type LoginName [2 * sha256.Size]byte

// LoginNameOf returns the name of the login with a text. ok is false if no login can have the text. It allocates nothing.
func LoginNameOf(text string) (name LoginName, ok bool) {
	if len(text) != LoginTextBytes {
		return name, false
	}
	var all [LoginTextBytes]byte
	copy(all[:], text)
	sum := sha256.Sum256(all[:])
	hex.Encode(name[:], sum[:])
	return name, true
}
