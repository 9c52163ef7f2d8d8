package blob

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Address is the SHA-256 of a blob's bytes.
type Address [sha256.Size]byte

// String returns the canonical form, `sha256:` and 64 lower-case hex digits.
func (a Address) String() string { return sha256Prefix + hex.EncodeToString(a[:]) }

// SHA1 is the SHA-1 of a blob's bytes.
type SHA1 [sha1.Size]byte

// String returns 40 lower-case hex digits.
func (s SHA1) String() string { return hex.EncodeToString(s[:]) }

// Ref names content by one of its digests. The zero Ref names nothing.
type Ref struct {
	SHA256 *Address
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

const (
	sha256Prefix = "sha256:"
	sriPrefix    = "sha256-"
	// maxQuoted is how much of a text that is not an address an error repeats.
	maxQuoted = 100
)

// Parse reads an address. It takes these forms, and returns ErrAddress for others:
//
//	sha256:<64 hex>                 the canonical form
//	<64 hex>                        as CAStaway has it
//	sha256-<base64 with padding>    subresource integrity, as Serval has it
//	<40 hex>                        SHA-1; Store.Resolve finds the blob
//
// Hex digits may be upper-case. There is exactly one base64 form of an address: the bits that fill up the last digit are 0.
func Parse(text string) (Ref, error) {
	var a Address
	digits, prefixed := strings.CutPrefix(text, sha256Prefix)
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
	case strings.HasPrefix(text, sriPrefix) && len(text) == len(sriPrefix)+base64.StdEncoding.EncodedLen(len(a)) && !strings.ContainsAny(text, "\r\n"):
		// DecodeString would skip line breaks.
		if sum, err := base64.StdEncoding.Strict().DecodeString(text[len(sriPrefix):]); err == nil && len(sum) == len(a) {
			return Ref{SHA256: (*Address)(sum)}, nil
		}
	}
	if len(text) > maxQuoted {
		text = text[:maxQuoted] + "…"
	}
	return Ref{}, fmt.Errorf("%w: %q; send sha256:<64 hex digits>, sha256-<base64>, or 64 or 40 hex digits", ErrAddress, text)
}

// parseName reads the name of a file in blobs/sha256, which has lower-case digits only.
func parseName(name string) (a Address, ok bool) {
	if len(name) != hex.EncodedLen(len(a)) || strings.ToLower(name) != name {
		return a, false
	}
	_, err := hex.Decode(a[:], []byte(name))
	return a, err == nil
}
