package wire

// Strategy is the order in which a consumer prefers chunks. The zero value is Oldest.
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

var preferDistinctFields = fields{"PreferDistinct", []string{"meta_key", "underlying"}, 2}

// strategy reads a Strategy:
//
//	"Oldest" | "Newest" | "Random" | {"PreferDistinct": {"meta_key": text, "underlying": Strategy}}
func (r *cborReader) strategy() (s Strategy, err error) {
	return s, r.strategyInto(&s)
}

// strategyInto reads one level. It recurses at most MaxPreferDistinct times.
func (r *cborReader) strategyInto(s *Strategy) error {
	name, payload, err := r.variant("Strategy")
	if err != nil {
		return err
	}
	for base, known := range baseNames {
		if string(name) == known {
			s.Base = Base(base)
			return r.noPayload(known, payload)
		}
	}
	if string(name) != "PreferDistinct" || !payload {
		return unknownVariant("Strategy", name, payload)
	}
	if len(s.PreferDistinct) == MaxPreferDistinct {
		return shapeError("more than %d PreferDistinct are nested", MaxPreferDistinct)
	}
	level := len(s.PreferDistinct)
	s.PreferDistinct = append(s.PreferDistinct, "")
	m, err := r.mapOf(&preferDistinctFields)
	if err != nil {
		return err
	}
	var seen seen
	for m.more(r) {
		field, err := r.field(&preferDistinctFields, &seen)
		if err != nil {
			return err
		}
		switch field {
		case "meta_key":
			s.PreferDistinct[level], err = r.text("meta_key")
		case "underlying":
			err = r.strategyInto(s)
		default:
			r.skip()
		}
		if err != nil {
			return err
		}
	}
	return preferDistinctFields.complete(seen)
}

func appendStrategy(b []byte, s Strategy) []byte {
	for _, key := range s.PreferDistinct {
		b = appendVariant(b, "PreferDistinct")
		b = appendMapHead(b, 2)
		b = appendText(b, "meta_key")
		b = appendText(b, key)
		b = appendText(b, "underlying")
	}
	return appendText(b, baseNames[s.Base])
}
