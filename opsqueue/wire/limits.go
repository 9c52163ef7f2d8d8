package wire

// Bounds of this package. A message or document that exceeds a bound is refused.
const (
	// MaxMessageBytes bounds a CBOR message. Both sides of the original have the same limit.
	MaxMessageBytes = 64 << 20

	// MaxPreferDistinct bounds the PreferDistinct strategies nested around a base strategy. The original lacks a limit.
	// Daybook's own strategies nest to the same depth.
	MaxPreferDistinct = 4

	// MaxMetadataPairs bounds the pairs in a map of a CBOR message. A pair can be as short as two bytes in a message, but
	// takes 24 in memory.
	MaxMetadataPairs = 1 << 20

	// maxNesting bounds the nesting of values in a CBOR message, as in the original. Only ignored values can nest so
	// deeply.
	maxNesting = 256
)
