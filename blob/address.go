package blob

import (
	"encoding/hex"
	"strings"

	"github.com/daybookq/daybook/job/digest"
)

// Address is the SHA-256 of a blob's bytes.
type Address = digest.SHA256

// SHA1 is the SHA-1 of a blob's bytes.
type SHA1 = digest.SHA1

// Ref names content by one of its digests. The zero Ref names nothing.
type Ref = digest.Ref

// Parse reads an address in any of its forms. It returns ErrAddress for other texts.
func Parse(text string) (Ref, error) { return digest.Parse(text) }

// parseName reads the name of a file in blobs/sha256. Such names have only lower-case digits.
func parseName(name string) (a Address, ok bool) {
	if len(name) != hex.EncodedLen(len(a)) || strings.ToLower(name) != name {
		return a, false
	}
	_, err := hex.Decode(a[:], []byte(name))
	return a, err == nil
}
