package wire

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// wellFormed checks a message before a cborReader reads it.
var wellFormed = func() cbor.DecMode {
	mode, err := cbor.DecOptions{MaxNestedLevels: maxNesting, MaxArrayElements: MaxMessageBytes, MaxMapPairs: MaxMetadataPairs}.DecMode()
	if err != nil {
		panic(err) // cannot happen: the options are constant
	}
	return mode
}()

// cborReader reads the values of one CBOR message in order. It follows the rules of serde and ciborium, which the
// original uses:
//
//   - Tags are skipped.
//   - A struct is a map with text keys, of definite or indefinite length.
//   - An enum is a text, or a map of definite length with exactly one entry.
//   - A text or byte string may have an indefinite length.
//   - null and undefined are the same.
//
// The library's Unmarshal accepts values that these rules refuse: null for a number, a missing field, an enum of
// indefinite length. It takes 1.6 times as long for messages without contents, and 6 times as long for an array of
// numbers (bench_test.go).
//
// Invariant: the message is well formed, so that no head and no length leads past its end.
type cborReader struct {
	b   []byte
	off int
}

// newCBORReader checks that a message is one well-formed CBOR value and not too large.
func newCBORReader(message []byte) (cborReader, error) {
	if len(message) > MaxMessageBytes {
		return cborReader{}, malformed("a message of %d bytes is larger than %d", len(message), MaxMessageBytes)
	}
	if err := wellFormed.Wellformed(message); err != nil {
		return cborReader{}, malformed("%v", err)
	}
	return cborReader{b: message}, nil
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

var majorNames = [...]string{"a number", "a negative number", "a byte string", "a text", "an array", "a map", "a tag", "a simple value or a float"}

const (
	breakByte     = 0xff
	nullByte      = 0xf6
	undefinedByte = 0xf7
)

// head is the beginning of a value: its major type, and its argument, which is a number or a length.
type head struct {
	major      byte
	indefinite bool
	arg        uint64
}

// rawHead reads a head, possibly the head of a tag.
func (r *cborReader) rawHead() head {
	first := r.b[r.off]
	r.off++
	h := head{major: first >> 5}
	switch info := first & 31; info {
	case 24:
		h.arg = uint64(r.b[r.off])
		r.off++
	case 25:
		h.arg = uint64(binary.BigEndian.Uint16(r.b[r.off:]))
		r.off += 2
	case 26:
		h.arg = uint64(binary.BigEndian.Uint32(r.b[r.off:]))
		r.off += 4
	case 27:
		h.arg = binary.BigEndian.Uint64(r.b[r.off:])
		r.off += 8
	case 31:
		h.indefinite = true
	default:
		h.arg = uint64(info)
	}
	return h
}

// head skips tags and reads the head of the value after them.
func (r *cborReader) head() head {
	for {
		if h := r.rawHead(); h.major != majorTag {
			return h
		}
	}
}

// null skips a value if it is null or undefined, and reports whether it was.
func (r *cborReader) null() bool {
	start := r.off
	for r.b[r.off]>>5 == majorTag {
		r.rawHead()
	}
	if r.b[r.off] == nullByte || r.b[r.off] == undefinedByte {
		r.off++
		return true
	}
	r.off = start
	return false
}

// atBreak skips the break that ends an indefinite length, and reports whether there was one.
func (r *cborReader) atBreak() bool {
	if r.b[r.off] != breakByte {
		return false
	}
	r.off++
	return true
}

// skip skips one value. It recurses at most maxNesting times.
func (r *cborReader) skip() {
	h := r.head()
	switch h.major {
	case majorBytes, majorText:
		if !h.indefinite {
			r.off += int(h.arg)
			return
		}
	case majorArray:
	case majorMap:
		h.arg *= 2 // less than twice the bytes of the message
	default:
		return
	}
	if h.indefinite {
		for !r.atBreak() {
			r.skip()
		}
		return
	}
	for range h.arg {
		r.skip()
	}
}

// items counts the unread entries of a map or elements of an array.
type items struct {
	left       uint64
	indefinite bool
}

// more reports whether there is another entry or element.
func (i *items) more(r *cborReader) bool {
	if i.indefinite {
		return !r.atBreak()
	}
	if i.left == 0 {
		return false
	}
	i.left--
	return true
}

// mapOf begins a struct.
func (r *cborReader) mapOf(f *fields) (items, error) {
	h := r.head()
	if h.major != majorMap {
		return items{}, wrongType(f.of, "a map", h)
	}
	return items{h.arg, h.indefinite}, nil
}

// field reads the key of an entry of a struct. It returns "" for an unknown field, whose value the caller must skip.
func (r *cborReader) field(f *fields, s *seen) (string, error) {
	h := r.head()
	if h.major != majorText {
		return "", wrongType("a key of "+f.of, "a text", h)
	}
	key, err := r.textBytes(h, f.of)
	if err != nil {
		return "", err
	}
	return f.match(key, s)
}

// variant reads the name of an enum's variant, and reports whether a payload follows.
func (r *cborReader) variant(of string) (name []byte, payload bool, err error) {
	h := r.head()
	switch {
	case h.major == majorMap && !h.indefinite && h.arg == 1:
		payload = true
		if h = r.head(); h.major != majorText {
			return nil, false, wrongType("the variant of "+of, "a text", h)
		}
	case h.major == majorMap:
		return nil, false, shapeError("%s is not a map of definite length with one entry", of)
	case h.major != majorText:
		return nil, false, wrongType(of, "a text or a map", h)
	}
	name, err = r.textBytes(h, of)
	return name, payload, err
}

// noPayload returns an error if there is a payload, for variants that must not have one.
func (r *cborReader) noPayload(variant string, payload bool) error {
	if payload {
		return shapeError("%s is not a text", variant)
	}
	return nil
}

func unknownVariant(of string, name []byte, payload bool) error {
	if payload {
		return shapeError("%s has no variant %q with a payload", of, shortened(name))
	}
	return shapeError("%s has no variant %q without a payload", of, shortened(name))
}

func wrongType(what, wanted string, h head) error {
	return shapeError("%s must be %s, not %s", what, wanted, majorNames[h.major])
}

// uint reads a number from 0 to 2^64-1.
func (r *cborReader) uint(what string) (uint64, error) {
	h := r.head()
	if h.major != majorUint {
		return 0, wrongType(what, "a number that is not negative", h)
	}
	return h.arg, nil
}

// uint63 reads a number from 0 to 2^63-1.
func (r *cborReader) uint63(what string) (int64, error) {
	n, err := r.uint(what)
	if err == nil && n > math.MaxInt64 {
		err = shapeError("%s is %d, more than 2^63-1", what, n)
	}
	return int64(n), err
}

// int reads a number from -2^63 to 2^63-1.
func (r *cborReader) int(what string) (int64, error) {
	h := r.head()
	switch {
	case h.major != majorUint && h.major != majorNegative:
		return 0, wrongType(what, "a whole number", h)
	case h.arg > math.MaxInt64:
		return 0, shapeError("%s is not a number of 64 bits with sign", what)
	case h.major == majorNegative:
		return -1 - int64(h.arg), nil
	}
	return int64(h.arg), nil
}

// textBytes returns the bytes of a text whose head was read. For a definite length, they share memory with the message.
func (r *cborReader) textBytes(h head, what string) ([]byte, error) {
	text := r.stringBytes(h)
	if !utf8.Valid(text) {
		return nil, shapeError("%s has a text that is not UTF-8", what)
	}
	return text, nil
}

// stringBytes returns the bytes of a text or a byte string whose head was read.
func (r *cborReader) stringBytes(h head) []byte {
	if !h.indefinite {
		start := r.off
		r.off += int(h.arg)
		return r.b[start:r.off:r.off]
	}
	whole := []byte{}
	for !r.atBreak() {
		whole = append(whole, r.stringBytes(r.rawHead())...)
	}
	return whole
}

// text reads a text. The result does not share memory with the message.
func (r *cborReader) text(what string) (string, error) {
	h := r.head()
	if h.major != majorText {
		return "", wrongType(what, "a text", h)
	}
	text, err := r.textBytes(h, what)
	return string(text), err
}

// bytes reads a byte vector: an array of numbers from 0 to 255, as the original sends it, or a byte string. It returns
// nil for null, and a non-nil slice for an empty vector. The result does not share memory with the message.
func (r *cborReader) bytes(what string) ([]byte, error) {
	if r.null() {
		return nil, nil
	}
	h := r.head()
	switch h.major {
	case majorBytes:
		return append(make([]byte, 0, h.arg), r.stringBytes(h)...), nil
	case majorArray:
		return r.byteArray(h, what)
	}
	return nil, wrongType(what, "null, an array of numbers or a byte string", h)
}

// byteArray reads the elements of an array of numbers from 0 to 255. An array of n elements takes at least n bytes of the
// message, so the message's length bounds the memory.
func (r *cborReader) byteArray(h head, what string) ([]byte, error) {
	out := make([]byte, 0, h.arg)
	elements := items{h.arg, h.indefinite}
	for elements.more(r) {
		n := r.b[r.off]
		if n < 24 { // a number in one byte; only the two-byte head below is as frequent
			r.off++
		} else if n == 24 {
			n = r.b[r.off+1]
			r.off += 2
		} else {
			wide, err := r.uint(what)
			if err != nil {
				return nil, err
			}
			if wide > 255 {
				return nil, shapeError("%s has an element %d, more than 255", what, wide)
			}
			n = byte(wide)
		}
		out = append(out, n)
	}
	return out, nil
}

var durationFields = fields{"Duration", []string{"secs", "nanos"}, 2}

// duration reads {"secs": number, "nanos": number}.
func (r *cborReader) duration(what string) (time.Duration, error) {
	m, err := r.mapOf(&durationFields)
	if err != nil {
		return 0, err
	}
	var secs, nanos uint64
	var seen seen
	for m.more(r) {
		field, err := r.field(&durationFields, &seen)
		if err != nil {
			return 0, err
		}
		switch field {
		case "secs":
			secs, err = r.uint("secs")
		case "nanos":
			nanos, err = r.uint("nanos")
		default:
			r.skip()
		}
		if err != nil {
			return 0, err
		}
	}
	if err := durationFields.complete(seen); err != nil {
		return 0, err
	}
	if nanos > math.MaxUint32 || secs > (math.MaxInt64-nanos)/uint64(time.Second) {
		return 0, shapeError("%s of %d s and %d ns is too long", what, secs, nanos)
	}
	return time.Duration(secs)*time.Second + time.Duration(nanos), nil
}
