package fileset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Address is the SHA-256 of the bytes of a blob.
type Address [sha256.Size]byte

const addressPrefix = "sha256:"

// AddressOf returns the address of a blob with these bytes.
func AddressOf(b []byte) Address { return sha256.Sum256(b) }

// String returns `sha256:` and 64 lower-case hex digits.
func (a Address) String() string { return addressPrefix + hex.EncodeToString(a[:]) }

// ParseAddress reads the form that String returns, and returns ErrAddress for any other text.
func ParseAddress(text string) (a Address, err error) {
	digits, ok := strings.CutPrefix(text, addressPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(a)) || strings.ToLower(digits) != digits {
		return a, wrongAddress(text)
	}
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return Address{}, wrongAddress(text)
	}
	return a, nil
}

func wrongAddress(text string) error {
	return fmt.Errorf("%w: %s; it must be sha256: and 64 lower-case hex digits", ErrAddress, quoted(text))
}

// MarshalText returns the form of String.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the form of String.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddress(string(text))
	return err
}
