package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// In JSON, a byte vector is an array of numbers from 0 to 255: 3.6 bytes for each number on average. Encoding and
// decoding use memory for the text and the vector only.

// digits has the text of each number from 0 to 255, right-aligned in three bytes, and its length.
var digits = func() (table [256]struct {
	text   [3]byte
	length uint8
}) {
	for n := range table {
		e := &table[n]
		for rest := n; ; rest /= 10 {
			e.length++
			e.text[3-e.length] = byte('0' + rest%10)
			if rest < 10 {
				break
			}
		}
	}
	return table
}()

// appendJSONBytes appends a byte vector, or null if it is nil.
func appendJSONBytes(b, content []byte) []byte {
	if content == nil {
		return append(b, "null"...)
	}
	size := 2 + len(content)
	for _, n := range content {
		size += int(digits[n].length)
	}
	if need := len(b) + size; cap(b) < need {
		b = append(make([]byte, 0, need+need/8), b...) // append would copy a large buffer several times
	}
	b = append(b, '[')
	for i, n := range content {
		if i > 0 {
			b = append(b, ',')
		}
		e := &digits[n]
		b = append(b, e.text[3-e.length:]...)
	}
	return append(b, ']')
}

// jsonBytes converts a valid JSON value to a byte vector. It returns nil for null, and a non-nil slice for an empty
// array.
func jsonBytes(value jsontext.Value, what string) ([]byte, error) {
	switch value.Kind() {
	case 'n':
		return nil, nil
	case '[':
	default:
		return nil, wrongJSON(what, "null or an array of numbers from 0 to 255", value.Kind())
	}
	out := make([]byte, 0, bytes.Count(value, []byte{','})+1) // the text takes at least as many bytes
	for i := 1; ; {
		for isSpace(value[i]) || value[i] == ',' {
			i++
		}
		if value[i] == ']' {
			return out, nil
		}
		n, start := 0, i
		for ; '0' <= value[i] && value[i] <= '9' && n <= 255; i++ {
			n = 10*n + int(value[i]-'0')
		}
		if end := value[i]; i == start || n > 255 || end != ',' && end != ']' && !isSpace(end) {
			return nil, shapeError("element %d of %s is not a whole number from 0 to 255", len(out), what)
		}
		out = append(out, byte(n))
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
