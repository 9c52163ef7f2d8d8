package encryption

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/daybookq/daybook/client"
)

var _ client.Codec = (*Keys)(nil)

const (
	magic      = "dbe1."
	headBytes  = len(magic) + 2 + idDigits + 1
	nonceBytes = 12
	tagBytes   = 16
)

// data has one text for each sequence of bytes: Strict refuses bits that do not count, and Decode refuses newlines, which
// the package skips.
var data = base64.RawURLEncoding.Strict()

var partLetters = map[client.Part]byte{client.PartPayload: 'p', client.PartOutput: 'o', client.PartError: 'e'}

var kindLetters = map[client.Kind]byte{client.Text: 't', client.JSON: 'j', client.Bytes: 'b'}

// EncodedLen returns how long the text of n bytes is.
func (k *Keys) EncodedLen(n int) int { return headBytes + data.EncodedLen(nonceBytes+1+n+tagBytes) }

// Encode encrypts a content with the first key. The nonce is random. With repeat it is made from the key, the content and
// repeat, so that a repeated request has the same text.
func (k *Keys) Encode(part client.Part, c client.Content, repeat string) ([]byte, error) {
	letter, kind := partLetters[part], kindLetters[c.Kind.Of(c.Data)]
	if c.Kind == client.None && len(c.Data) == 0 {
		kind = 't'
	}
	if letter == 0 || kind == 0 {
		return nil, fmt.Errorf("a %s of kind %q cannot be encrypted", part, c.Kind)
	}
	with := &k.list[0]
	text := make([]byte, 0, k.EncodedLen(len(c.Data)))
	text = append(append(append(text, magic...), letter, '.'), with.id...)
	text = append(text, '.')
	plain := append(append(make([]byte, 0, 1+len(c.Data)), kind), c.Data...)
	sealed := make([]byte, nonceBytes, nonceBytes+len(plain)+tagBytes)
	if repeat == "" {
		rand.Read(sealed) // it never fails
	} else {
		length := binary.BigEndian.AppendUint64(nil, uint64(len(repeat)))
		copy(sealed, mac(with.nonce, length, []byte(repeat), text, plain))
	}
	return data.AppendEncode(text, with.aead.Seal(sealed, sealed, plain, text)), nil
}

// KeyOf returns the id of the key with which a content of a part is encrypted, without a key. A text that only begins like an
// encrypted one is not encrypted: ok is false unless each byte of it can be one of Encode.
func KeyOf(part client.Part, text []byte) (id string, ok bool) {
	if !bytes.HasPrefix(text, []byte(magic)) || len(text) < headBytes+data.EncodedLen(nonceBytes+1+tagBytes) {
		return "", false
	}
	letter, idText, body := text[len(magic)], text[len(magic)+2:headBytes-1], text[headBytes:]
	if !fits(letter, part) || text[len(magic)+1] != '.' || text[headBytes-1] != '.' || bytes.ContainsAny(body, "\r\n") {
		return "", false
	}
	for _, c := range idText {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", false
		}
	}
	if _, err := data.AppendDecode(nil, body); err != nil {
		return "", false
	}
	return string(idText), true
}

// fits reports whether a text with this letter can be a part. An output becomes the payload of the next job.
func fits(letter byte, part client.Part) bool {
	return letter != 0 && letter == partLetters[part] || letter == 'o' && part == client.PartPayload
}

// Decode decrypts a text of Encode. An error that is not encrypted is returned as it is, because the server writes some
// itself.
func (k *Keys) Decode(part client.Part, text []byte) (c client.Content, err error) {
	if !bytes.HasPrefix(text, []byte(magic)) {
		if part == client.PartError {
			return client.Content{Kind: client.Text, Data: text}, nil
		}
		return c, ErrNotEncrypted
	}
	if len(text) < k.EncodedLen(0) || text[headBytes-1] != '.' {
		return c, fmt.Errorf("%w: it is too short or malformed", ErrAltered)
	}
	head, body := text[:headBytes], text[headBytes:]
	id := string(head[len(magic)+2 : headBytes-1])
	with := k.find(id)
	if with == nil {
		return c, fmt.Errorf("%w: its id is %.16q", ErrNoKey, id)
	}
	if !fits(head[len(magic)], part) {
		return c, fmt.Errorf("%w: it is not a %s", ErrAltered, part)
	}
	if bytes.ContainsAny(body, "\r\n") {
		return c, ErrAltered
	}
	sealed, err := data.AppendDecode(nil, body)
	if err != nil {
		return c, ErrAltered
	}
	plain, err := with.aead.Open(nil, sealed[:nonceBytes], sealed[nonceBytes:], head)
	if err != nil {
		return c, ErrAltered
	}
	for kind, letter := range kindLetters {
		if plain[0] == letter {
			return client.Content{Kind: kind, Data: plain[1:]}, nil
		}
	}
	return c, fmt.Errorf("%w: its kind is not known", ErrAltered)
}
