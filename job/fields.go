package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The header of a journal record is text: `key=value` pairs joined by single spaces. Bytes of a value that could be taken
// for structure (control bytes, space, `%`, `=`, `,` and DEL) are written as %XX. All other bytes, including UTF-8, are
// written unchanged, so that grep finds them.

// fields builds such a header. Attributes with zero values are left out: an absent field reads as zero.
type fields []byte

// usualFields is longer than the fields of most commands and outcomes. A smaller buffer would cost an allocation each
// time the text outgrows it.
const usualFields = 128

func (f *fields) key(key string) {
	if len(*f) > 0 {
		*f = append(*f, ' ')
	}
	*f = append(*f, key...)
	*f = append(*f, '=')
}

func (f *fields) text(key, value string) {
	if value != "" {
		f.key(key)
		*f = AppendEscaped(*f, value)
	}
}

func (f *fields) int(key string, value int64) {
	if value != 0 {
		f.key(key)
		*f = strconv.AppendInt(*f, value, 10)
	}
}

func (f *fields) id(key string, id ID) {
	if !id.IsZero() {
		f.key(key)
		*f = id.AppendText(*f)
	}
}

func (f *fields) texts(key string, values []string) {
	if len(values) == 0 {
		return
	}
	f.key(key)
	for i, v := range values {
		if i > 0 {
			*f = append(*f, ',')
		}
		*f = AppendEscaped(*f, v)
	}
}

const upperHex = "0123456789ABCDEF"

func mustEscape(c byte) bool { return escapedByte[c] }

var escapedByte = func() (t [256]bool) {
	for c := range byte(' ' + 1) {
		t[c] = true
	}
	for _, c := range []byte("%=,\x7f") {
		t[c] = true
	}
	return t
}()

// AppendEscaped appends a value in the escaped form of a header.
func AppendEscaped[T string | []byte](b []byte, value T) []byte {
	for i := range len(value) {
		if c := value[i]; mustEscape(c) {
			b = append(b, '%', upperHex[c>>4], upperHex[c&0xf])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// Unescape is the inverse of AppendEscaped. It refuses any other spelling of a value.
func Unescape(value string) (string, error) {
	if strings.IndexByte(value, '%') < 0 {
		for i := range len(value) {
			if mustEscape(value[i]) {
				return "", fmt.Errorf("value %q holds a raw %q", value, value[i])
			}
		}
		return value, nil
	}
	b := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		c := value[i]
		if c == '%' {
			if i+2 >= len(value) {
				return "", fmt.Errorf("value %q ends within an escape", value)
			}
			n, err := strconv.ParseUint(value[i+1:i+3], 16, 8)
			if err != nil || !mustEscape(byte(n)) || strings.ToUpper(value[i+1:i+3]) != value[i+1:i+3] {
				return "", fmt.Errorf("value %q holds a wrong escape", value)
			}
			c = byte(n)
			i += 2
		} else if mustEscape(c) {
			return "", fmt.Errorf("value %q holds a raw %q", value, c)
		}
		b = append(b, c)
	}
	return string(b), nil
}

// fieldReader reads a header pair by pair and keeps the first error, so that a decoder reads as a list of attributes.
type fieldReader struct {
	rest string
	err  error
	seen [maxFields]string
	n    int
}

// maxFields is more than any form needs.
const maxFields = 40

// next returns the next pair with its raw value. ok is false at the end and after an error.
func (r *fieldReader) next() (key, raw string, ok bool) {
	if r.err != nil || r.rest == "" {
		return "", "", false
	}
	var pair string
	pair, rest, more := strings.Cut(r.rest, " ")
	if more && rest == "" {
		r.err = fmt.Errorf("fields end in a space")
		return "", "", false
	}
	key, raw, eq := strings.Cut(pair, "=")
	if !eq || key == "" || raw == "" {
		r.err = fmt.Errorf("field %q is not key=value", pair)
		return "", "", false
	}
	if r.n == maxFields || slices.Contains(r.seen[:r.n], key) {
		r.err = fmt.Errorf("field %q is there twice, or one too many", key)
		return "", "", false
	}
	r.seen[r.n] = key
	r.n++
	r.rest = rest
	return key, raw, true
}

func (r *fieldReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *fieldReader) unknown(key string) { r.fail(fmt.Errorf("unknown field %q", key)) }

func (r *fieldReader) text(raw string) string {
	v, err := Unescape(raw)
	if err != nil {
		r.fail(err)
	}
	return v
}

// bounded reads a text of 1 to hi bytes.
func (r *fieldReader) bounded(key, raw string, hi int) string {
	v := r.text(raw)
	if err := CheckText(key, v, 1, hi); err != nil {
		r.fail(err)
	}
	return v
}

// name reads a client or type.
func (r *fieldReader) name(key, raw string) string {
	v := r.text(raw)
	if err := CheckName(key, v); err != nil {
		r.fail(err)
	}
	return v
}

func (r *fieldReader) names(key, raw string) []string {
	parts := strings.Split(raw, ",")
	if len(parts) > MaxClaimNames {
		r.fail(fmt.Errorf("field %s lists %d names", key, len(parts)))
	}
	for i, p := range parts {
		parts[i] = r.name(key, p)
	}
	return parts
}

func (r *fieldReader) status(key, raw string) Status {
	s, err := ParseStatus(raw)
	if err != nil {
		r.fail(fmt.Errorf("field %s: %w", key, err))
	}
	return s
}

func (r *fieldReader) int(key, raw string, lo, hi int64) int64 {
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != raw {
		r.fail(fmt.Errorf("field %s=%s is not a whole number", key, raw))
		return lo
	}
	if n < lo || n > hi {
		r.fail(fmt.Errorf("field %s=%s is not in %d … %d", key, raw, lo, hi))
		return lo
	}
	return n
}

func (r *fieldReader) id(raw string) ID {
	id, err := parseCanonicalID([]byte(raw))
	if err != nil {
		r.fail(fmt.Errorf("field value %q: %w", raw, err))
	}
	return id
}
