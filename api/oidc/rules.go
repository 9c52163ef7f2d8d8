package oidc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/daybookq/daybook/job"
)

// matches reports whether claims have all claims of the rule. A rule for an email matches only if the issuer has verified it: at
// many issuers, anybody can enter the address of somebody else.
func (r *Rule) matches(claims map[string]any) bool {
	for name, want := range r.Claims {
		if !has(find(claims, name), want) {
			return false
		}
		if name == "email" && claims["email_verified"] != true {
			return false
		}
	}
	return len(r.Claims) > 0
}

// find returns a claim, or nil.
func find(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	if inner, ok := claims[first].(map[string]any); ok && nested {
		return find(inner, rest)
	}
	return nil
}

// has reports whether a claim is a value, or a list that has it.
func has(claim, want any) bool {
	if list, ok := claim.([]any); ok {
		for _, item := range list {
			if equal(item, want) {
				return true
			}
		}
		return false
	}
	return equal(claim, want)
}

func equal(claim, want any) bool {
	switch want := want.(type) {
	case string, bool:
		return claim == want
	case int64:
		return claim == float64(want)
	}
	return false
}

// nameOf returns the name of a token's subject, as histories and the journal show it. It has two slashes, so it is the name of no
// key. A subject that does not fit has a digest after a tilde, so two subjects never have the same name.
func nameOf(issuer, subject string) string {
	head, changed := "oidc/"+issuer+"/", false
	clean := strings.Map(func(c rune) rune {
		if c < 128 && (job.NameByte(byte(c)) || c == '@' || c == '|') {
			return c
		}
		changed = true
		return '_'
	}, subject)
	if !changed && len(head)+len(clean) <= job.MaxByBytes {
		return head + clean
	}
	sum := sha256.Sum256([]byte(subject))
	digest := "~" + hex.EncodeToString(sum[:8])
	return head + clean[:min(len(clean), job.MaxByBytes-len(head)-len(digest))] + digest
}

// MaxIssuerName bounds the name of an issuer, so that the names of its people fit into histories.
const MaxIssuerName = 32

// decode decodes JSON without anything after it.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows the JSON")
	}
	return nil
}
