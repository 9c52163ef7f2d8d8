package wire

import (
	"errors"
	"fmt"
)

// Every error of a decoder wraps one of these two. Its text has the reason.
var (
	// ErrMalformed reports that the bytes are not exactly one value of CBOR or JSON. For JSON, the HTTP status is 400.
	ErrMalformed = errors.New("malformed")

	// ErrShape reports a valid CBOR or JSON value of the wrong shape: a field is missing or duplicate, or a value has the
	// wrong type or is out of range. For JSON, the HTTP status is 422.
	ErrShape = errors.New("wrong shape")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

func shapeError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrShape}, args...)...)
}

// shortened truncates a long part of a message for an error text.
func shortened[T string | []byte](text T) string {
	const most = 40
	if len(text) <= most {
		return string(text)
	}
	return string(text[:most]) + "…"
}
