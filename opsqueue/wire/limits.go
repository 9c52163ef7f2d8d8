package wire

// The bounds of this package. A message or document that exceeds one is refused.
const (
	// MaxMessageBytes is the size of the largest CBOR message that either side accepts.
	MaxMessageBytes = 64 << 20

	// MaxPreferDistinct is how many PreferDistinct may be nested around a base strategy. The original has no limit.
	// Daybook's own strategies nest to the same depth.
	MaxPreferDistinct = 4

	// MaxMetadataPairs is how many pairs a map of a CBOR message may have. A pair takes two bytes in a message, and 24 in
	// memory.
	MaxMetadataPairs = 1 << 20

	// maxNesting is how deeply the values of a CBOR message may nest. Only values that are ignored can nest so deeply. The
	// original has the same limit.
	maxNesting = 256
)
