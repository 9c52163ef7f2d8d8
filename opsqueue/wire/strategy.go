package wire

import (
	"slices"

	"github.com/fxamacker/cbor/v2"
)

// Strategy is the order in which a consumer prefers chunks. The zero value is Oldest. On the wire, it is
//
//	"Oldest" | "Newest" | "Random" | {"PreferDistinct": {"meta_key": text, "underlying": Strategy}}
type Strategy struct {
	// PreferDistinct are the metadata keys of the PreferDistinct strategies around Base, the outermost first. It may be
	// empty.
	PreferDistinct []string
	Base           Base
}

// Base is a strategy that contains no further strategy.
type Base uint8

// Base strategies.
const (
	Oldest Base = iota // submissions in order of creation
	Newest             // the newest submission first
	Random
)

// baseNames are the names on the wire, indexed by Base.
var baseNames = [...]string{"Oldest", "Newest", "Random"}

func (b Base) String() string { return baseNames[b] }

const preferDistinct = "PreferDistinct"

// decode decodes one level, and the levels in it.
func (s *Strategy) decode(r reader, of string) error {
	return variant(r, of, func(name string, payload bool) error {
		base := slices.Index(baseNames[:], name)
		switch {
		case base >= 0 && payload:
			return shapeError("%s is not a text", name)
		case base >= 0:
			s.Base = Base(base)
			return nil
		case name != preferDistinct || !payload:
			return unknownVariant(of, name, payload)
		case len(s.PreferDistinct) == MaxPreferDistinct:
			return shapeError("more than %d PreferDistinct are nested", MaxPreferDistinct)
		}
		level := len(s.PreferDistinct)
		s.PreferDistinct = append(s.PreferDistinct, "")
		p := struct {
			MetaKey    string     `json:"meta_key"`
			Underlying underlying `json:"underlying"`
		}{Underlying: underlying{s}}
		err := decode(r, name, &p)
		s.PreferDistinct[level] = p.MetaKey
		return err
	})
}

// underlying is the strategy in a PreferDistinct. It is decoded into the strategy that contains it.
type underlying struct{ outer *Strategy }

func (u *underlying) decode(r reader, of string) error { return u.outer.decode(r, of) }

// MarshalCBOR implements cbor.Marshaler.
func (s Strategy) MarshalCBOR() ([]byte, error) {
	type payload struct {
		MetaKey    string          `json:"meta_key"`
		Underlying cbor.RawMessage `json:"underlying"`
	}
	encoded := encodeCBOR(s.Base.String())
	for _, key := range slices.Backward(s.PreferDistinct) {
		encoded = encodeCBOR(map[string]payload{preferDistinct: {key, encoded}})
	}
	return encoded, nil
}
