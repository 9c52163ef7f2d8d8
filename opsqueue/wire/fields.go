package wire

// fields are the names of the fields of one type. A decoder refuses a field that is there twice and a required field
// that is missing. It ignores unknown fields.
type fields struct {
	of       string   // the type, for error texts
	names    []string // at most 32; the required ones come first
	required int
}

// seen are the fields that a decoder has read: bit i is names[i].
type seen uint32

// match returns the name of the field that a key names, or "" if the field is unknown.
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

// submissionFields are those of a Submission, in CBOR and in JSON.
var submissionFields = fields{
	"Submission",
	[]string{"id", "chunks_total", "chunks_done", "chunk_size", "otel_trace_carrier", "prefix", "metadata", "strategic_metadata"}, 5,
}
