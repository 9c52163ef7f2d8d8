package blob

import (
	"errors"
	"fmt"
)

// Errors that a caller can distinguish with errors.Is. The text of the returned error adds the values.
var (
	// ErrAddress: the text is not an address in any of the forms that Parse takes.
	ErrAddress = errors.New("blob: not an address")
	// ErrNotFound: the store has no such blob.
	ErrNotFound = errors.New("blob: not found")
	// ErrTooLarge: the stream is longer than Options.MaxBytes.
	ErrTooLarge = errors.New("blob: too large")
	// ErrDigest: the stream has another digest than the expected one.
	ErrDigest = errors.New("blob: the content has another digest")
	// ErrQuota: the blobs would have more bytes than Options.QuotaBytes.
	ErrQuota = errors.New("blob: the quota is used up")
	// ErrNoSpace: less space would be free on the disk than Options.ReserveBytes.
	ErrNoSpace = errors.New("blob: the disk is nearly full")
	// ErrLocked: another process, or another Store of this process, has locked the directory.
	ErrLocked = errors.New("another process uses it")
)

// DamagedError says which file of a store does not have the content that its name promises, and what to do next.
type DamagedError struct {
	File   string
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("blob: damaged: %s (file %s); next step: put the same content again, which replaces the file", e.Reason, e.File)
}
