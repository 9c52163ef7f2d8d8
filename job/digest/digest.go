package digest

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// SHA256 is the SHA-256 of a blob's bytes. It is the blob's address.
type SHA256 [sha256.Size]byte

// String returns the canonical form, `sha256:` and 64 lower-case hex digits.
func (a SHA256) String() string { return HexPrefix + hex.EncodeToString(a[:]) }

// SHA1 is the SHA-1 of a blob's bytes.
type SHA1 [sha1.Size]byte

// String returns 40 lower-case hex digits.
func (s SHA1) String() string { return hex.EncodeToString(s[:]) }

// Ref names content by one of its digests. The zero Ref names nothing.
type Ref struct {
	SHA256 *SHA256
	SHA1   *SHA1
}

// String returns the canonical form of the digest, or "" for the zero Ref.
func (r Ref) String() string {
	switch {
	case r.SHA256 != nil:
		return r.SHA256.String()
	case r.SHA1 != nil:
		return r.SHA1.String()
	}
	return ""
}

// Err is returned for a text that is not an address in any form that Parse accepts.
var Err = errors.New("not the address of a blob")

// The prefixes of addresses: before hex digits, and before base64.
const (
	HexPrefix    = "sha256:"
	Base64Prefix = "sha256-"
	// maxQuoted is the number of bytes of a wrong address that an error repeats.
	maxQuoted = 100
)

// Parse reads an address in one of these forms, and returns Err for any other text:
//
//	sha256:<64 hex>                 the canonical form
//	<64 hex>                        the form of CAStaway
//	sha256-<base64 with padding>    subresource integrity, the form of Serval
//	<40 hex>                        SHA-1; the server looks up the blob
//
// Hex digits may be upper-case. An address has exactly one base64 form: the padding bits of the last digit must be 0.
func Parse(text string) (Ref, error) {
	var a SHA256
	digits, prefixed := strings.CutPrefix(text, HexPrefix)
	switch {
	case len(digits) == hex.EncodedLen(len(a)):
		if _, err := hex.Decode(a[:], []byte(digits)); err == nil {
			return Ref{SHA256: &a}, nil
		}
	case len(digits) == hex.EncodedLen(sha1.Size) && !prefixed:
		var s SHA1
		if _, err := hex.Decode(s[:], []byte(digits)); err == nil {
			return Ref{SHA1: &s}, nil
		}
	case strings.HasPrefix(text, Base64Prefix) && len(text) == len(Base64Prefix)+base64.StdEncoding.EncodedLen(len(a)) && !strings.ContainsAny(text, "\r\n"):
		// DecodeString would skip line breaks.
		if sum, err := base64.StdEncoding.Strict().DecodeString(text[len(Base64Prefix):]); err == nil && len(sum) == len(a) {
			return Ref{SHA256: (*SHA256)(sum)}, nil
		}
	}
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return Ref{}, fmt.Errorf("%w: %q; send sha256:<64 hex digits>, sha256-<base64>, or 64 or 40 hex digits", Err, text)
}
