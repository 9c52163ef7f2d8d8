package wire

import (
	"errors"

	"github.com/fxamacker/cbor/v2"
)

var (
	cborEncoding = modeOf(cbor.EncOptions{}.EncMode())
	cborDecoding = modeOf(cbor.DecOptions{MaxNestedLevels: maxNesting, MaxArrayElements: MaxMessageBytes, MaxMapPairs: MaxMetadataPairs}.DecMode())
	withoutTags  = modeOf(cbor.DecOptions{
		MaxNestedLevels: maxNesting, MaxArrayElements: MaxMessageBytes, MaxMapPairs: MaxMetadataPairs, TagsMd: cbor.TagsForbidden,
	}.DecMode())
)

func modeOf[T any](mode T, err error) T {
	if err != nil {
		panic(err) // cannot happen: the options are constant
	}
	return mode
}

// encodeCBOR encodes a message of this package.
func encodeCBOR(message any) []byte {
	b, err := cborEncoding.Marshal(message)
	if err != nil {
		panic("wire: " + err.Error()) // cannot happen: each of our types can be encoded
	}
	return b
}

// decodeCBOR decodes a message. It returns ErrMalformed or ErrShape if the message is not valid.
func decodeCBOR(message []byte, into any) error {
	if len(message) > MaxMessageBytes {
		return malformed("a message of %d bytes is larger than %d", len(message), MaxMessageBytes)
	}
	if err := cborDecoding.Wellformed(message); err != nil {
		return malformed("%v", err)
	}
	if withoutTags.Wellformed(message) != nil {
		message = stripTags(message)
	}
	return decode(&cborReader{message}, "the message", into)
}

// Major types of CBOR.
const (
	majorUint = iota
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

const breakByte = 0xff

// head is the beginning of a value: its major type, and its argument, which is a number or a length.
type head struct {
	major      byte
	indefinite bool
	arg        uint64
	size       int // in bytes, with the content of a string of definite length
}

// headOf reads the head at the beginning of well-formed CBOR.
func headOf(b []byte) head {
	info := b[0] & 31
	h := head{major: b[0] >> 5, indefinite: info == 31, arg: uint64(info), size: 1}
	if info >= 24 && info < 28 {
		h.arg, h.size = 0, 1+1<<(info-24)
		for _, c := range b[1:h.size] {
			h.arg = h.arg<<8 | uint64(c)
		}
	}
	if (h.major == majorBytes || h.major == majorText) && !h.indefinite {
		h.size += int(h.arg)
	}
	return h
}

// stripTags returns a message without its tags. ciborium, which the original uses, skips every tag. The library would
// refuse some, and read others as dates and large numbers.
func stripTags(message []byte) []byte {
	out := make([]byte, 0, len(message))
	for len(message) > 0 {
		h := headOf(message)
		if h.major != majorTag {
			out = append(out, message[:h.size]...)
		}
		message = message[h.size:]
	}
	return out
}

// cborReader reads CBOR as serde and ciborium do: null and undefined are the same, and maps, arrays, texts and byte strings
// may have an indefinite length.
type cborReader struct{ rest []byte }

func (r *cborReader) isText() bool { return headOf(r.rest).major == majorText }

func (r *cborReader) isIndefinite() bool { return headOf(r.rest).indefinite }

func (r *cborReader) null() bool {
	null := r.rest[0] == 0xf6 || r.rest[0] == 0xf7
	if null {
		r.rest = r.rest[1:]
	}
	return null
}

// ignored is a value that is not decoded.
type ignored struct{}

// UnmarshalCBOR implements cbor.Unmarshaler.
func (*ignored) UnmarshalCBOR([]byte) error { return nil }

func (r *cborReader) skip() error { return r.decode(&ignored{}) }

// decode decodes the next value with the library.
func (r *cborReader) decode(into any) (err error) {
	r.rest, err = cborDecoding.UnmarshalFirst(r.rest, into)
	return err
}

func (r *cborReader) scalar(into any) error {
	switch headOf(r.rest).major {
	case majorUint, majorNegative, majorText:
		return r.decode(into)
	}
	return errors.New("not a scalar") // or null, which the library reads as 0
}

func (r *cborReader) fields(of string, visit func(key string) error) error {
	return r.items(majorMap, of, "a map", func() error {
		var key string
		if err := r.scalar(&key); err != nil {
			return shapeError("a key of %s must be a text of UTF-8", of)
		}
		return visit(key)
	})
}

func (r *cborReader) elements(of string, visit func() error) error {
	return r.items(majorArray, of, "an array", visit)
}

// items reads a map or an array. visit must read an element, or a key and its value.
func (r *cborReader) items(major byte, of, kind string, visit func() error) error {
	h := headOf(r.rest)
	if h.major != major {
		return shapeError("%s is not %s", of, kind)
	}
	r.rest = r.rest[h.size:]
	for left := h.arg; h.indefinite && r.rest[0] != breakByte || !h.indefinite && left > 0; left-- {
		if err := visit(); err != nil {
			return err
		}
	}
	if h.indefinite {
		r.rest = r.rest[1:]
	}
	return nil
}

// bytes reads an array of numbers from 0 to 255, as the original sends it, or a byte string. The library would read null
// in an array as 0.
func (r *cborReader) bytes(of string) (content []byte, err error) {
	h := headOf(r.rest)
	switch h.major {
	case majorBytes:
		return content, r.decode(&content)
	case majorArray:
		content = make([]byte, 0, h.arg) // a well-formed array has at least as many bytes
		return content, r.elements(of, func() error {
			element := headOf(r.rest)
			if element.major != majorUint || element.arg > 255 {
				return shapeError("element %d of %s is not a whole number from 0 to 255", len(content), of)
			}
			content = append(content, byte(element.arg))
			r.rest = r.rest[element.size:]
			return nil
		})
	}
	return nil, shapeError("%s must be null, an array of numbers from 0 to 255 or a byte string", of)
}

// widened returns a byte vector that the library encodes as an array of numbers, as the original's consumer sends it.
func widened(content []byte) []uint16 {
	if content == nil {
		return nil
	}
	wide := make([]uint16, 0, len(content))
	for _, n := range content {
		wide = append(wide, uint16(n))
	}
	return wide
}
