package blob

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/daybookq/daybook/job/digest"
)

// Find calls visit with everything in a text that may be an address, in any form that Parse takes. It is for finding
// out which blobs are in use, so it prefers to find too many. Hex digits of a digest count in any place. Up to slack
// further hex digits may surround them, in case the text around a digest ends or begins with such digits. Base64 may be
// escaped as in JSON or in URLs.
func Find(text []byte, visit func(Ref)) {
	findHex(text, visit)
	for rest := text; ; {
		i := bytes.Index(rest, []byte(digest.Base64Prefix))
		if i < 0 {
			return
		}
		rest = rest[i+len(digest.Base64Prefix):]
		if a, ok := base64At(rest); ok {
			visit(Ref{SHA256: &a})
		}
	}
}

// slack is the largest number of hex digits around a digest that do not belong to it.
const slack = 4

// findHex finds the digests in hex digits.
func findHex(text []byte, visit func(Ref)) {
	const short, long = 2 * sha1.Size, 2 * sha256.Size
	for i := 0; i < len(text); {
		// A run of enough digits has a digit at every place that is a multiple of its length, so most bytes are not
		// examined.
		if !isHex[text[i]] {
			if i += short - 1; i >= len(text) {
				return
			}
			if !isHex[text[i]] {
				i++
				continue
			}
		}
		first := i
		for first > 0 && isHex[text[first-1]] {
			first--
		}
		end := i + 1
		for end < len(text) && isHex[text[end]] {
			end++
		}
		run := text[first:end]
		switch n := len(run); {
		case n >= long && n <= long+slack:
			for at := range n - long + 1 {
				var a Address
				hex.Decode(a[:], run[at:at+long])
				visit(Ref{SHA256: &a})
			}
		case n >= short && n <= short+slack:
			for at := range n - short + 1 {
				var s SHA1
				hex.Decode(s[:], run[at:at+short])
				visit(Ref{SHA1: &s})
			}
		}
		i = end
	}
}

var isHex = func() (is [256]bool) {
	for _, c := range "0123456789abcdefABCDEF" {
		is[c] = true
	}
	return is
}()

// base64At decodes the digest at the beginning of a text. Characters may be escaped as in JSON (\/ and \u002B) or as in
// URLs and in the journal (%2F).
func base64At(text []byte) (a Address, ok bool) {
	var digits [(sha256.Size*8 + 5) / 6]byte
	n := 0
	for len(text) > 0 && n < len(digits) {
		digits[n], text = unescaped(text)
		n++
	}
	if n < len(digits) {
		return a, false
	}
	var sum [base64Bytes]byte
	m, err := base64.RawStdEncoding.Decode(sum[:], digits[:])
	if err != nil || m != len(a) {
		return a, false
	}
	return Address(sum[:len(a)]), true
}

// unescaped returns the character at the beginning of a text, and the rest of the text.
func unescaped(text []byte) (c byte, rest []byte) {
	digits, rest := []byte(nil), text[1:]
	switch {
	case text[0] == '\\' && len(rest) > 0 && rest[0] == '/':
		return '/', rest[1:]
	case text[0] == '\\' && len(rest) >= 5 && rest[0] == 'u' && rest[1] == '0' && rest[2] == '0':
		digits, rest = rest[3:5], rest[5:]
	case text[0] == '%' && len(rest) >= 2:
		digits, rest = rest[:2], rest[2:]
	default:
		return text[0], rest
	}
	var b [1]byte
	if _, err := hex.Decode(b[:], digits); err != nil {
		return text[0], text[1:]
	}
	return b[0], rest
}

const base64Bytes = (sha256.Size*8 + 5) / 6 * 6 / 8
