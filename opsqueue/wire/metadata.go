package wire

import (
	"maps"
	"reflect"
	"slices"
)

// Metadata is strategic metadata: whole numbers by key.
type Metadata map[string]int64

// MarshalCBOR implements cbor.Marshaler. The keys are in ascending order, and invalid UTF-8 is replaced as in Submission.
func (m Metadata) MarshalCBOR() ([]byte, error) {
	b := encodeCBOR(uint64(len(m)))
	b[0] |= majorMap << 5 // the head of a map differs from the head of a number only in its major type
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = append(append(b, encodeCBOR(validUTF8(key))...), encodeCBOR(m[key])...)
	}
	return b, nil
}

// decode decodes a map. As in the original, the last value of a key counts.
func (m *Metadata) decode(r reader, of string) error {
	what := "a value of " + of
	return r.fields(of, func(key string) error {
		if *m == nil {
			*m = Metadata{}
		}
		var n int64
		err := decodeInto(r, what, reflect.ValueOf(&n).Elem(), true)
		(*m)[key] = n
		return err
	})
}
