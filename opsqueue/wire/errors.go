package wire

import (
	"errors"
	"fmt"
)

// Every error of a decoder is one of these two, with the reason in its text.
var (
	// ErrMalformed says that the bytes are not CBOR or JSON, or more than one value. For JSON the HTTP status is 400.
	ErrMalformed = errors.New("malformed")

	// ErrShape says that the bytes are a valid CBOR or JSON value of another shape: a field is missing or there twice, or
	// a value has a wrong type or is out of range. For JSON the HTTP status is 422.
	ErrShape = errors.New("wrong shape")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

func shapeError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrShape}, args...)...)
}

// shortened cuts a long text of a message for an error text.
func shortened[T string | []byte](text T) string {
	const most = 40
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}
