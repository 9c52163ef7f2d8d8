package wire

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// reader reads the values of one message of CBOR or JSON in order. Each value is valid: the library has checked the whole
// message.
type reader interface {
	// fields reads a map. It calls visit for each key, and visit must read the value. It returns ErrShape if the next value
	// is not a map with text keys.
	fields(of string, visit func(key string) error) error
	// elements reads an array. It calls visit for each element, which visit must read. It returns ErrShape if the next value
	// is not an array.
	elements(of string, visit func() error) error
	// bytes reads a byte vector, which is never nil. It returns ErrShape if the next value is not a byte vector.
	bytes(of string) ([]byte, error)
	// scalar decodes a number, a text or a time. It returns an error if the value is null or has a different type.
	scalar(into any) error
	// null reads the next value if it is null, and reports whether it was.
	null() bool
	// skip reads any value.
	skip() error
	isText() bool
	// isIndefinite reports whether the next value is a map or an array of indefinite length.
	isIndefinite() bool
}

// special is a type that is not decoded by its kind.
type special interface {
	decode(r reader, of string) error
}

var (
	bytesType    = reflect.TypeFor[[]byte]()
	metadataType = reflect.TypeFor[Metadata]()
	timeType     = reflect.TypeFor[time.Time]()
)

// decode decodes the next value into a variable, which must be zero. The libraries alone are not strict enough: for them,
// a missing number and a number that is null are 0, and every int64 may be negative. of is for error texts.
func decode(r reader, of string, into any) error {
	return decodeInto(r, of, reflect.ValueOf(into).Elem(), false)
}

// decodeInto is decode. An int64 may be negative if signed is true.
func decodeInto(r reader, of string, into reflect.Value, signed bool) error {
	if s, ok := into.Addr().Interface().(special); ok {
		return s.decode(r, of)
	}
	kind, t := into.Kind(), into.Type()
	switch {
	case (kind == reflect.Pointer || t == bytesType) && r.null():
		return nil
	case kind == reflect.Pointer:
		into.Set(reflect.New(t.Elem()))
		return decodeInto(r, of, into.Elem(), signed)
	case t == bytesType:
		content, err := r.bytes(of)
		into.SetBytes(content)
		return err
	case kind == reflect.Slice:
		into.Set(reflect.MakeSlice(t, 0, 0))
		what := "an element of " + of
		return r.elements(of, func() error {
			n := into.Len()
			into.Grow(1)
			into.SetLen(n + 1)
			return decodeInto(r, what, into.Index(n), signed)
		})
	case kind == reflect.Struct && t != timeType:
		return decodeStruct(r, of, into)
	}
	if err := r.scalar(into.Addr().Interface()); err != nil || kind == reflect.Int64 && !signed && into.Int() < 0 {
		return shapeError("%s must be %s", of, wanted(kind, signed))
	}
	return nil
}

// wanted describes the values of a kind, for error texts.
func wanted(kind reflect.Kind, signed bool) string {
	switch {
	case kind == reflect.String:
		return "a text of UTF-8"
	case kind == reflect.Uint64:
		return "a whole number from 0 to 2^64-1"
	case kind == reflect.Int64 && signed:
		return "a whole number from -2^63 to 2^63-1"
	case kind == reflect.Int64:
		return "a whole number from 0 to 2^63-1"
	}
	return "a time of RFC 3339"
}

// field is a field of a message.
type field struct {
	name     string // of the tag
	index    []int
	signed   bool // the number may be negative
	required bool
}

var fieldsByType sync.Map // reflect.Type → []field

// fieldsOf returns the fields of a struct, with the fields of embedded structs. A pointer, a byte vector and metadata are
// optional.
func fieldsOf(t reflect.Type) []field {
	if known, ok := fieldsByType.Load(t); ok {
		return known.([]field)
	}
	var all []field
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		optional := f.Type.Kind() == reflect.Pointer || f.Type == bytesType || f.Type == metadataType
		all = append(all, field{name, f.Index, f.Tag.Get("wire") == "signed", !optional})
	}
	fieldsByType.Store(t, all)
	return all
}

// decodeStruct decodes a map. As in the original, unknown fields are ignored. Duplicate fields are refused.
func decodeStruct(r reader, of string, into reflect.Value) error {
	all := fieldsOf(into.Type())
	var seen uint64 // bit i is all[i]
	err := r.fields(of, func(key string) error {
		i := slices.IndexFunc(all, func(field field) bool { return field.name == key })
		if i < 0 {
			return r.skip()
		}
		if seen&(1<<i) != 0 {
			return shapeError("%s has the field %s twice", of, key)
		}
		seen |= 1 << i
		return decodeInto(r, key, into.FieldByIndex(all[i].index), all[i].signed)
	})
	if err != nil {
		return err
	}
	for i, field := range all {
		if field.required && seen&(1<<i) == 0 {
			return shapeError("%s has no field %s", of, field.name)
		}
	}
	return nil
}

// variant reads an enum: a text, or a map of definite length with one entry. It calls visit with the name of the variant,
// and visit must read the payload if there is one.
func variant(r reader, of string, visit func(name string, payload bool) error) error {
	if r.isText() {
		var name string
		if err := decode(r, of, &name); err != nil {
			return err
		}
		return visit(name, false)
	}
	indefinite, entries := r.isIndefinite(), 0
	err := r.fields(of, func(key string) error {
		if entries++; entries > 1 || indefinite {
			return shapeError("%s is not a map of definite length with one entry", of)
		}
		return visit(key, true)
	})
	if err == nil && entries == 0 {
		err = shapeError("%s is not a map of definite length with one entry", of)
	}
	return err
}

// oneOf decodes an enum whose variants all have payloads into a struct of pointers: it sets the field that is named after
// the variant. The libraries encode such a struct as this enum.
func oneOf(r reader, of string, into any) error {
	return variant(r, of, func(name string, payload bool) error {
		field := reflect.ValueOf(into).Elem().FieldByName(name)
		if !payload || !field.IsValid() {
			return unknownVariant(of, name, payload)
		}
		field.Set(reflect.New(field.Type().Elem()))
		return decodeInto(r, name, field.Elem(), false)
	})
}

func unknownVariant(of, name string, payload bool) error {
	if payload {
		return shapeError("%s has no variant %q with a payload", of, shortened(name))
	}
	return shapeError("%s has no variant %q without a payload", of, shortened(name))
}

// tuple decodes an array of definite length with one element for each variable. The original does not read the end of an
// array of indefinite length here.
func tuple(r reader, of string, into ...any) error {
	indefinite, n := r.isIndefinite(), 0
	err := r.elements(of, func() error {
		if n++; n > len(into) || indefinite {
			return shapeError("%s is not an array of definite length with %d elements", of, len(into))
		}
		return decode(r, of, into[n-1])
	})
	if err == nil && n < len(into) {
		err = shapeError("%s has fewer than %d elements", of, len(into))
	}
	return err
}

// Duration is a time.Duration that is not negative. On the wire, it is {"secs": number, "nanos": number}.
type Duration time.Duration

type secondsAndNanos struct {
	Secs  uint64 `json:"secs"`
	Nanos uint64 `json:"nanos"`
}

// MarshalCBOR implements cbor.Marshaler.
func (d Duration) MarshalCBOR() ([]byte, error) {
	return encodeCBOR(secondsAndNanos{uint64(d) / uint64(time.Second), uint64(d) % uint64(time.Second)}), nil
}

func (d *Duration) decode(r reader, of string) error {
	var parts secondsAndNanos
	if err := decode(r, of, &parts); err != nil {
		return err
	}
	if parts.Nanos > math.MaxUint32 || parts.Secs > (math.MaxInt64-parts.Nanos)/uint64(time.Second) {
		return shapeError("%s of %d s and %d ns is too long", of, parts.Secs, parts.Nanos)
	}
	*d = Duration(time.Duration(parts.Secs)*time.Second + time.Duration(parts.Nanos))
	return nil
}
