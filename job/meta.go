package job

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Meta is a small map from names to texts that belongs to a job. It is kept in its canonical text form: pairs name=value,
// sorted by name and joined by commas, with values escaped as in a record's header. Equal maps are equal strings, so that
// groups can be compared.
//
//	colour=deep%20red,size=4
type Meta string

// NewMeta returns the canonical form of a map, or an error that describes the invalid entry.
func NewMeta(m map[string]string) (Meta, error) {
	if len(m) > MaxMeta {
		return "", fmt.Errorf("meta has at most %d entries, not %d", MaxMeta, len(m))
	}
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	var b []byte
	for i, name := range names {
		if err := checkMeta(name, m[name]); err != nil {
			return "", err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, name...), '=')
		b = AppendEscaped(b, m[name])
	}
	return Meta(b), nil
}

func checkMeta(name, value string) error {
	if err := checkMetaName(name); err != nil {
		return err
	}
	if len(value) <= MaxMetaValueBytes && utf8.ValidString(value) {
		return nil
	}
	return CheckText("meta."+name, value, 0, MaxMetaValueBytes)
}

func checkMetaName(name string) error {
	if name == "" || len(name) > MaxMetaNameBytes {
		return fmt.Errorf("a name in meta must have 1 to %d bytes, not %d", MaxMetaNameBytes, len(name))
	}
	for i := range len(name) {
		if !nameByte[name[i]] {
			return fmt.Errorf("a name in meta may hold only %s, and not %q", nameCharacters, firstCharacter(name[i:]))
		}
	}
	return nil
}

// ParseMeta reads the canonical form and refuses every other. It keeps the text instead of building a map, because the
// applier parses up to 16,000 entries in one create.
func ParseMeta(text string) (Meta, error) {
	n, last := 0, ""
	for pair := range strings.SplitSeq(text, ",") {
		name, raw, ok := strings.Cut(pair, "=")
		value, err := Unescape(raw)
		if !ok || err != nil {
			return "", fmt.Errorf("meta %q is not name=value", pair)
		}
		if err := checkMeta(name, value); err != nil {
			return "", err
		}
		if n++; n > MaxMeta {
			return "", fmt.Errorf("meta has at most %d entries", MaxMeta)
		}
		if name <= last {
			return "", fmt.Errorf("meta %q is not in its canonical form: %q follows %q", text, name, last)
		}
		last = name
	}
	return Meta(text), nil
}

// All yields the pairs in the order of their names.
func (m Meta) All() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for rest := string(m); rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ",")
			name, raw, _ := strings.Cut(pair, "=")
			if !yield(name, unescaped(m, raw)) {
				return
			}
		}
	}
}

// Get returns the value of a name.
func (m Meta) Get(name string) (value string, ok bool) {
	for pair := range strings.SplitSeq(string(m), ",") {
		if n, raw, ok := strings.Cut(pair, "="); ok && n == name {
			return unescaped(m, raw), true
		}
	}
	return "", false
}

// unescaped returns a value of a meta that was checked before.
func unescaped(m Meta, raw string) string {
	value, err := Unescape(raw)
	if err != nil {
		panic(fmt.Sprintf("job: meta %q was not checked: %v", string(m), err))
	}
	return value
}

// CheckTraceparent returns an error unless text is a traceparent of W3C Trace Context, version 00:
//
//	00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
func CheckTraceparent(text string) error {
	const zeroTrace, zeroParent = "00000000000000000000000000000000", "0000000000000000"
	ok := len(text) == traceparentBytes && text[2] == '-' && text[35] == '-' && text[52] == '-' && text[:2] == "00" &&
		text[3:35] != zeroTrace && text[36:52] != zeroParent
	for i := range len(text) {
		ok = ok && (text[i] == '-' && (i == 2 || i == 35 || i == 52) || hexDigit[text[i]] <= 0xf)
	}
	if !ok {
		return fmt.Errorf("traceparent must be of version 00 of W3C Trace Context, 55 characters: 00-<32 hex>-<16 hex>-<2 hex>")
	}
	return nil
}

const traceparentBytes = 55
