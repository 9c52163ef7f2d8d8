package job

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// BatchMeta is a small map from names to texts and 64-bit integers that belongs to a batch. It is kept in its canonical
// text form: pairs name=text or name:integer, sorted by name and joined by commas, with texts escaped as in a record's
// header. Equal maps are equal strings. An integer never contains `=`, so a pair without `=` splits at its last colon.
//
//	model=blue,user:42
type BatchMeta string

// MetaValue is a text or an integer.
type MetaValue struct {
	Text      string
	Integer   int64
	IsInteger bool
}

// String returns the text, or the integer in decimal digits.
func (v MetaValue) String() string {
	if v.IsInteger {
		return strconv.FormatInt(v.Integer, 10)
	}
	return v.Text
}

// NewBatchMeta returns the canonical form of a map, or an error that describes the invalid entry.
func NewBatchMeta(m map[string]MetaValue) (BatchMeta, error) {
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
		if err := checkMeta(name, m[name].String()); err != nil {
			return "", err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, MetaPair(name, m[name])...)
	}
	return BatchMeta(b), nil
}

// MetaPair returns the canonical form of one pair.
func MetaPair(name string, v MetaValue) string {
	if v.IsInteger {
		return name + ":" + v.String()
	}
	return name + "=" + string(AppendEscaped(nil, v.Text))
}

// ParseMetaInteger parses decimal digits in the one spelling that MetaValue.String writes. ok is false for other texts.
func ParseMetaInteger(text string) (v MetaValue, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	v = MetaValue{Integer: n, IsInteger: true}
	return v, err == nil && v.String() == text
}

// ParseBatchMeta reads the canonical form and refuses every other.
func ParseBatchMeta(text string) (BatchMeta, error) {
	m := map[string]MetaValue{}
	for pair := range strings.SplitSeq(text, ",") {
		name, v, err := parseMetaPair(pair)
		if err != nil {
			return "", err
		}
		m[name] = v
	}
	meta, err := NewBatchMeta(m)
	if err == nil && string(meta) != text {
		err = fmt.Errorf("meta %q is not in its canonical form", text)
	}
	return meta, err
}

func parseMetaPair(pair string) (name string, v MetaValue, err error) {
	name, raw, isText := strings.Cut(pair, "=")
	if isText {
		v.Text, err = Unescape(raw)
	} else {
		colon := strings.LastIndexByte(pair, ':')
		if colon < 0 {
			return "", v, fmt.Errorf("meta %q is not name=text or name:integer", pair)
		}
		name, v.IsInteger = pair[:colon], true
		v.Integer, err = strconv.ParseInt(pair[colon+1:], 10, 64)
	}
	if err != nil {
		return "", v, fmt.Errorf("meta %q is not name=text or name:integer", pair)
	}
	return name, v, nil
}

// Pairs yields the canonical forms of the pairs in the order of their names.
func (m BatchMeta) Pairs() iter.Seq[string] {
	return func(yield func(pair string) bool) {
		for rest := string(m); rest != ""; {
			var pair string
			if pair, rest, _ = strings.Cut(rest, ","); !yield(pair) {
				return
			}
		}
	}
}

// All yields the pairs in the order of their names.
func (m BatchMeta) All() iter.Seq2[string, MetaValue] {
	return func(yield func(name string, v MetaValue) bool) {
		for pair := range m.Pairs() {
			name, v, err := parseMetaPair(pair)
			if err != nil {
				panic(fmt.Sprintf("job: meta %q was not checked: %v", string(m), err))
			}
			if !yield(name, v) {
				return
			}
		}
	}
}

// Inherited returns the meta of a job of the batch: the job's own pairs, and the batch's pairs under names that the job
// does not use. Integers become decimal text. It fails if the result breaks the limits of Meta.
func (m BatchMeta) Inherited(own Meta) (Meta, error) {
	if m == "" {
		return own, nil
	}
	all := map[string]string{}
	for name, v := range m.All() {
		all[name] = v.String()
	}
	for name, text := range own.All() {
		all[name] = text
	}
	return NewMeta(all)
}
