package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// timeLayout always has nine decimal digits, like the original's times.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// duplicateNames lets decodeStruct decide about duplicate fields: the original ignores duplicates of unknown fields.
var duplicateNames = jsontext.AllowDuplicateNames(true)

var jsonEncoding = json.JoinOptions(
	json.Deterministic(true),
	jsontext.AllowInvalidUTF8(true), // replaced by U+FFFD, which may make names equal
	duplicateNames,
	json.WithMarshalers(json.JoinMarshalers(json.MarshalToFunc(writeBytes), json.MarshalToFunc(writeTime))),
)

// EncodeJSON encodes a request or an answer of this package, a text, a number, or nil. It panics if v is an enum without
// a variant, or another type that cannot be encoded.
func EncodeJSON(v any) []byte {
	b, err := json.Marshal(v, jsonEncoding)
	if err != nil {
		panic("wire: " + err.Error())
	}
	return b
}

// writeBytes writes a byte vector as an array of numbers.
func writeBytes(e *jsontext.Encoder, content []byte) error {
	if content == nil {
		return e.WriteToken(jsontext.Null)
	}
	b := append(slices.Grow(e.AvailableBuffer(), 2+4*len(content)), '[')
	for i, n := range content {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return e.WriteValue(append(b, ']'))
}

func writeTime(e *jsontext.Encoder, t time.Time) error {
	return e.WriteToken(jsontext.String(t.UTC().Format(timeLayout)))
}

// DecodeJSON decodes a document into a variable, which must be zero: an InsertSubmission, a Metadata, a SubmissionID, a
// slice of SubmissionID, an int64 that is not negative, a *SubmissionStatus or a SubmissionNotCancellable. It returns
// ErrMalformed if the document is not one value of JSON, even if a value before the mistake has the wrong shape, and
// ErrShape if the value has the wrong shape. The result does not share memory with the document. After an error, the
// variable may have a part of it. The caller must bound the length of the document.
func DecodeJSON(document []byte, into any) error {
	r := newJSONReader(document)
	if err := r.skip(); err != nil {
		return malformedJSON(err)
	}
	if _, err := r.ReadToken(); err == nil {
		return malformed("a second value follows the first one")
	} else if err != io.EOF {
		return malformedJSON(err)
	}
	return decode(newJSONReader(document), "the value", into)
}

func malformedJSON(err error) error {
	if err == io.EOF {
		return malformed("the document is empty")
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return malformed("%v at byte %d", shortened(syntax.Err.Error()), syntax.ByteOffset)
	}
	return malformed("%v", err)
}

// jsonReader reads JSON as serde_json does.
type jsonReader struct{ *jsontext.Decoder }

func newJSONReader(document []byte) jsonReader {
	return jsonReader{jsontext.NewDecoder(bytes.NewBuffer(document), duplicateNames)}
}

func (r jsonReader) isText() bool { return r.PeekKind() == '"' }

func (r jsonReader) isIndefinite() bool { return false }

func (r jsonReader) null() bool { return r.PeekKind() == 'n' && r.skip() == nil }

func (r jsonReader) skip() error { return r.SkipValue() }

func (r jsonReader) scalar(into any) error {
	value, err := r.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() == 'n' || string(value) == "-0" {
		return errors.New("null or a float") // the library reads both as 0
	}
	err = json.Unmarshal(value, into)
	if t, ok := into.(*time.Time); ok {
		*t = t.UTC()
	}
	return err
}

func (r jsonReader) fields(of string, visit func(key string) error) error {
	return r.items('{', of, "an object", func() error {
		name, err := r.ReadToken()
		if err != nil {
			return malformedJSON(err)
		}
		return visit(name.String())
	})
}

func (r jsonReader) elements(of string, visit func() error) error {
	return r.items('[', of, "an array", visit)
}

// items reads an object or an array. visit must read an element, or a name and its value.
func (r jsonReader) items(begin jsontext.Kind, of, kind string, visit func() error) error {
	if r.PeekKind() != begin {
		return shapeError("%s is not %s", of, kind)
	}
	if _, err := r.ReadToken(); err != nil {
		return malformedJSON(err)
	}
	for next := r.PeekKind(); next != ']' && next != '}'; next = r.PeekKind() {
		if err := visit(); err != nil {
			return err
		}
	}
	if _, err := r.ReadToken(); err != nil {
		return malformedJSON(err)
	}
	return nil
}

// bytes reads an array of numbers from 0 to 255. The library would read null in an array as 0.
func (r jsonReader) bytes(of string) ([]byte, error) {
	value, err := r.ReadValue()
	if err != nil {
		return nil, malformedJSON(err)
	}
	var wide []uint16
	if err := json.Unmarshal(value, &wide); err != nil || bytes.IndexByte(value, 'n') >= 0 {
		return nil, shapeError("%s must be null or an array of whole numbers from 0 to 255", of)
	}
	content := make([]byte, len(wide))
	for i, n := range wide {
		if n > 255 {
			return nil, shapeError("element %d of %s is greater than 255", i, of)
		}
		content[i] = byte(n)
	}
	return content, nil
}
