package wire

import (
	"bytes"
	"strconv"
)

var (
	insertFields = fields{"InsertSubmission", []string{"chunk_contents", "metadata", "strategic_metadata", "chunk_size"}, 1}
	storedFields = fields{"SeeObjectStorage", []string{"prefix", "count"}, 2}
	directFields = fields{"Direct", []string{"contents"}, 1}
)

// DecodeInsertSubmission decodes the body of POST /producer/submissions. It returns ErrMalformed or ErrShape if the body
// is not valid. The result does not share memory with the body. The caller must bound the length of the body.
func DecodeInsertSubmission(body []byte) (out InsertSubmission, err error) {
	err = decodeJSON(body, func(r jsonReader) error {
		return r.object(&insertFields, func(field string) (err error) {
			switch field {
			case "chunk_contents":
				err = r.chunkContents(&out)
			case "metadata":
				out.Metadata, err = r.bytes(field)
			case "strategic_metadata":
				out.StrategicMetadata, err = r.metadata(field)
			case "chunk_size":
				if !r.null() {
					out.ChunkSize = new(int64)
					*out.ChunkSize, err = r.int(field)
				}
			}
			return err
		})
	})
	if err != nil {
		return InsertSubmission{}, err
	}
	return out, nil
}

func (r jsonReader) chunkContents(out *InsertSubmission) error {
	const of = "chunk_contents"
	return r.variant(of, func(name string) error {
		switch name {
		case "SeeObjectStorage":
			stored := &SeeObjectStorage{}
			out.SeeObjectStorage = stored
			return r.object(&storedFields, func(field string) (err error) {
				switch field {
				case "prefix":
					stored.Prefix, err = r.text(field)
				case "count":
					stored.Count, err = r.uint63(field)
				}
				return err
			})
		case "Direct":
			out.Direct = &Direct{}
			return r.object(&directFields, func(string) (err error) {
				out.Direct.Contents, err = r.directContents()
				return err
			})
		}
		return r.unknownVariant(of, name)
	})
}

// directContents reads an array of byte vectors and nulls. It returns a non-nil slice for an empty array.
func (r jsonReader) directContents() ([][]byte, error) {
	const what = "contents"
	if err := r.begin('[', what); err != nil {
		return nil, err
	}
	contents := [][]byte{}
	for {
		if more, err := r.more(); err != nil || !more {
			return contents, err
		}
		content, err := r.bytes("a chunk of " + what)
		if err != nil {
			return nil, err
		}
		contents = append(contents, content)
	}
}

// AppendJSON appends the request as the original's producer sends it.
func (s *InsertSubmission) AppendJSON(b []byte) []byte {
	b = appendKey(append(b, '{'), "chunk_contents")
	if stored := s.SeeObjectStorage; stored != nil {
		b = append(b, `{"SeeObjectStorage":{`...)
		b = appendJSONText(appendKey(b, "prefix"), stored.Prefix)
		b = appendField(b, "count", stored.Count)
	} else {
		b = append(b, `{"Direct":{"contents":[`...)
		for i, content := range s.Direct.Contents {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSONBytes(b, content)
		}
		b = append(b, ']')
	}
	b = append(b, "}}"...)
	b = appendJSONBytes(appendKey(b, "metadata"), s.Metadata)
	b = appendJSONMetadata(appendKey(b, "strategic_metadata"), s.StrategicMetadata)
	if s.ChunkSize == nil {
		b = append(appendKey(b, "chunk_size"), "null"...)
	} else {
		b = appendField(b, "chunk_size", *s.ChunkSize)
	}
	return append(b, '}')
}

// DecodeLookup decodes the body of POST /producer/submissions/lookup_ids_by_strategic_metadata: an object with the keys
// and values that a submission must have. It returns ErrMalformed or ErrShape if the body is not valid.
func DecodeLookup(body []byte) (m Metadata, err error) {
	err = decodeJSON(body, func(r jsonReader) (err error) {
		m, err = r.metadata("the lookup")
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// AppendJSON appends the metadata as an object.
func (m Metadata) AppendJSON(b []byte) []byte { return appendJSONMetadata(b, m) }

// AppendJSON appends the id as a number. This is the answer to an insert and to a lookup by prefix, and the answer of
// status 404 to a cancel.
func (id SubmissionID) AppendJSON(b []byte) []byte { return strconv.AppendInt(b, int64(id), 10) }

// AppendSubmissionIDs appends an array of numbers, which is the answer to a lookup by metadata.
func AppendSubmissionIDs(b []byte, ids []SubmissionID) []byte {
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = id.AppendJSON(b)
	}
	return append(b, ']')
}

// DecodeSubmissionIDs decodes the answer to a lookup by metadata. It returns ErrMalformed or ErrShape if the answer is
// not valid.
func DecodeSubmissionIDs(body []byte) (ids []SubmissionID, err error) {
	err = decodeJSON(body, func(r jsonReader) error {
		if err := r.begin('[', "the answer"); err != nil {
			return err
		}
		ids = make([]SubmissionID, 0, bytes.Count(body, []byte{','})+1)
		for {
			if more, err := r.more(); err != nil || !more {
				return err
			}
			id, err := r.submissionID("an id")
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// TooManyMatchingSubmissions is the answer of status 400 to a lookup by metadata that matches more submissions than the
// server returns. Its value is the limit.
type TooManyMatchingSubmissions int64

// AppendJSON appends the limit as a number.
func (t TooManyMatchingSubmissions) AppendJSON(b []byte) []byte {
	return strconv.AppendInt(b, int64(t), 10)
}

// AppendCount appends the answer to a count, a number.
func AppendCount(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// DecodeNumber decodes an answer that is one number from 0 to 2^63-1: an id, a count or a limit. It returns ErrMalformed
// or ErrShape if the answer is not valid.
func DecodeNumber(body []byte) (n int64, err error) {
	err = decodeJSON(body, func(r jsonReader) (err error) {
		n, err = r.uint63("the answer")
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// AppendServerError appends the answer of status 500: the reason, as a JSON string.
func AppendServerError(b []byte, reason string) []byte { return appendJSONText(b, reason) }

// AppendPanic appends the answer of status 500 after a panic: {"error":{"kind":"panic","details":"…"}}.
func AppendPanic(b []byte, details string) []byte {
	b = append(b, `{"error":{"kind":"panic","details":`...)
	b = appendJSONText(b, details)
	return append(b, "}}"...)
}
