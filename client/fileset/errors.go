package fileset

import "errors"

// Errors that a caller can distinguish with errors.Is. The text of the returned error adds the values.
var (
	// ErrPath: a path is not accepted, occurs twice, or is both a file and a directory.
	ErrPath = errors.New("fileset: wrong path")
	// ErrManifest: the text is not a manifest.
	ErrManifest = errors.New("fileset: not a manifest")
	// ErrTooLarge: the fileset exceeds a limit.
	ErrTooLarge = errors.New("fileset: too large")
	// ErrPattern: a pattern is invalid, or there are too many.
	ErrPattern = errors.New("fileset: wrong pattern")
	// ErrAddress: the text is not the canonical address of a blob.
	ErrAddress = errors.New("fileset: not the address of a blob")
)
