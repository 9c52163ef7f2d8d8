package wire

// fields are the names of the fields of one type. A decoder refuses duplicate fields and missing required fields. It
// ignores unknown fields.
type fields struct {
	of       string   // the type, for error texts
	names    []string // at most 32; the required fields come first
	required int
}

// seen is the set of fields that a decoder has read: bit i is names[i].
type seen uint32

// match returns the field for a key, or "" if the field is unknown. It returns an error if the field was read before.
func (f *fields) match(key []byte, s *seen) (string, error) {
	for i, name := range f.names {
		if string(key) != name {
			continue
		}
		if *s&(1<<i) != 0 {
			return "", shapeError("%s has the field %s twice", f.of, name)
		}
		*s |= 1 << i
		return name, nil
	}
	return "", nil
}

// complete returns an error if a required field is missing.
func (f *fields) complete(s seen) error {
	for i, name := range f.names[:f.required] {
		if s&(1<<i) == 0 {
			return shapeError("%s has no field %s", f.of, name)
		}
	}
	return nil
}

// submissionFields are the fields of a Submission, in CBOR and in JSON.
var submissionFields = fields{
	"Submission",
	[]string{"id", "chunks_total", "chunks_done", "chunk_size", "otel_trace_carrier", "prefix", "metadata", "strategic_metadata"}, 5,
}
