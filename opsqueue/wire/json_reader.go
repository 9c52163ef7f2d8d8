package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonReader reads the values of one JSON document in order. It follows the rules of serde_json, which the original uses:
// a missing or null field of an optional type is nil, a required field must be present and not null, duplicate fields are
// refused, unknown fields are ignored. Numbers never become floats, because ids exceed 2^53.
type jsonReader struct {
	*jsontext.Decoder
}

// decodeJSON decodes one document with read. It returns ErrMalformed if the document is not valid JSON, even if a value
// before the mistake has the wrong shape.
func decodeJSON(document []byte, read func(r jsonReader) error) error {
	r := jsonReader{jsontext.NewDecoder(bytes.NewBuffer(document), jsontext.AllowDuplicateNames(true))}
	err := read(r)
	if errors.Is(err, ErrShape) {
		if rest := r.rest(); rest != nil {
			return rest
		}
		return err
	}
	if err != nil {
		return malformedJSON(err)
	}
	return r.rest()
}

// rest reads to the end of the document. It returns ErrMalformed if the rest is not valid or a second value follows.
func (r jsonReader) rest() error {
	ended := r.StackDepth() == 0 // the value was read
	for {
		if _, err := r.ReadToken(); err == io.EOF && ended {
			return nil
		} else if err != nil {
			return malformedJSON(err)
		}
		if ended {
			return malformed("a second value follows the first one")
		}
		ended = r.StackDepth() == 0
	}
}

func malformedJSON(err error) error {
	if errors.Is(err, ErrMalformed) {
		return err
	}
	if err == io.EOF {
		return malformed("the document is empty")
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return malformed("%v at byte %d", shortened(syntax.Err.Error()), syntax.ByteOffset)
	}
	return malformed("%v", err)
}

func wrongJSON(what, wanted string, kind jsontext.Kind) error {
	return shapeError("%s must be %s, not %s", what, wanted, kindNames[kind])
}

var kindNames = map[jsontext.Kind]string{
	'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
}

// begin reads the opening bracket of an object or an array.
func (r jsonReader) begin(bracket jsontext.Kind, what string) error {
	token, err := r.ReadToken()
	if err == nil && token.Kind() != bracket {
		err = wrongJSON(what, kindNames[bracket], token.Kind())
	}
	return err
}

// more reports whether there is another entry or element. If there is none, it reads the closing bracket.
func (r jsonReader) more() (bool, error) {
	if kind := r.PeekKind(); kind != '}' && kind != ']' {
		return true, nil // or an error, which the next call returns
	}
	_, err := r.ReadToken()
	return false, err
}

// object reads a struct. It calls read for each known field, and read must read the value.
func (r jsonReader) object(f *fields, read func(field string) error) error {
	if err := r.begin('{', f.of); err != nil {
		return err
	}
	var seen seen
	for {
		if more, err := r.more(); err != nil || !more {
			if err == nil {
				err = f.complete(seen)
			}
			return err
		}
		key, err := r.ReadToken()
		if err != nil {
			return err
		}
		field, err := f.match([]byte(key.String()), &seen)
		if err != nil {
			return err
		}
		if field == "" {
			err = r.SkipValue()
		} else {
			err = read(field)
		}
		if err != nil {
			return err
		}
	}
}

// variant reads an enum: an object with exactly one entry, {"Variant": payload}. read must read the payload.
func (r jsonReader) variant(of string, read func(name string) error) error {
	if err := r.begin('{', of); err != nil {
		return err
	}
	if r.PeekKind() == '}' {
		return shapeError("%s has no variant", of)
	}
	name, err := r.ReadToken()
	if err != nil {
		return err
	}
	if err := read(name.String()); err != nil {
		return err
	}
	if more, err := r.more(); err != nil || !more {
		return err
	}
	return shapeError("%s has more than one entry", of)
}

func (r jsonReader) unknownVariant(of, name string) error {
	return shapeError("%s has no variant %q", of, shortened(name))
}

// pair reads an array of two elements.
func (r jsonReader) pair(what string, first, second func() error) error {
	if err := r.begin('[', what); err != nil {
		return err
	}
	for _, read := range []func() error{first, second} {
		if r.PeekKind() == ']' {
			return shapeError("%s has fewer than two elements", what)
		}
		if err := read(); err != nil {
			return err
		}
	}
	if more, err := r.more(); err != nil || !more {
		return err
	}
	return shapeError("%s has more than two elements", what)
}

// null reads a value if it is null, and reports whether it was.
func (r jsonReader) null() bool {
	if r.PeekKind() != 'n' {
		return false
	}
	_, err := r.ReadToken()
	return err == nil // if false, the next call returns the error
}

// number reads the text of a number.
func (r jsonReader) number(what string) (string, error) {
	token, err := r.ReadToken()
	if err == nil && token.Kind() != '0' {
		err = wrongJSON(what, "a number", token.Kind())
	}
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

// uint63 reads a number from 0 to 2^63-1, without fraction or exponent.
func (r jsonReader) uint63(what string) (int64, error) {
	text, err := r.number(what)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, shapeError("%s is %s, not a whole number from 0 to 2^63-1", what, shortened(text))
	}
	return int64(n), nil
}

// int reads a number from -2^63 to 2^63-1, without fraction or exponent.
func (r jsonReader) int(what string) (int64, error) {
	text, err := r.number(what)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text == "-0" { // to serde_json, -0 is a float
		return 0, shapeError("%s is %s, not a whole number from -2^63 to 2^63-1", what, shortened(text))
	}
	return n, nil
}

func (r jsonReader) submissionID(what string) (SubmissionID, error) {
	n, err := r.uint63(what)
	return SubmissionID(n), err
}

func (r jsonReader) text(what string) (string, error) {
	token, err := r.ReadToken()
	if err == nil && token.Kind() != '"' {
		err = wrongJSON(what, "a string", token.Kind())
	}
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

func (r jsonReader) nullableText(what string) (*string, error) {
	if r.null() {
		return nil, nil
	}
	text, err := r.text(what)
	return &text, err
}

func (r jsonReader) bytes(what string) ([]byte, error) {
	value, err := r.ReadValue()
	if err != nil {
		return nil, err
	}
	return jsonBytes(value, what)
}

// time reads an RFC 3339 time with any offset.
func (r jsonReader) time(what string) (time.Time, error) {
	text, err := r.text(what)
	if err != nil {
		return time.Time{}, err
	}
	var t time.Time
	if err := t.UnmarshalText([]byte(text)); err != nil {
		return t, fmt.Errorf("%w: %s is %q, not a time of RFC 3339", ErrShape, what, shortened(text))
	}
	return t.UTC(), nil
}

// metadata reads an object whose values are numbers.
func (r jsonReader) metadata(what string) (Metadata, error) {
	if err := r.begin('{', what); err != nil {
		return nil, err
	}
	var pairs []MetadataPair
	for {
		if more, err := r.more(); err != nil || !more {
			return NewMetadata(pairs), err
		}
		key, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		p := MetadataPair{Key: key.String()}
		if p.Value, err = r.int("a value of " + what); err != nil {
			return nil, err
		}
		pairs = append(pairs, p)
	}
}
