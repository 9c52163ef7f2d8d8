package blob

import (
	"errors"
	"fmt"
	"path"

	"github.com/daybookq/daybook/job/digest"
)

// Errors that a caller can distinguish with errors.Is. The text of the returned error adds the values.
var (
	// ErrAddress: the text is not an address in any of the forms that Parse takes.
	ErrAddress = digest.Err
	// ErrNotFound: the blob is not in the store.
	ErrNotFound = errors.New("blob: not found")
	// ErrTooLarge: the stream is longer than Options.MaxBytes.
	ErrTooLarge = errors.New("blob: too large")
	// ErrDigest: the digest of the stream is not the expected one.
	ErrDigest = errors.New("blob: the content has another digest")
	// ErrQuota: the blobs would have more bytes than Options.QuotaBytes.
	ErrQuota = errors.New("blob: the quota is used up")
	// ErrNoSpace: less space would be free on the disk than Options.ReserveBytes.
	ErrNoSpace = errors.New("blob: the disk is nearly full")
	// ErrBatchFull: the batch has MaxBatch blobs.
	ErrBatchFull = errors.New("blob: the batch is full")
	// ErrOffset: the append does not begin where the upload ends.
	ErrOffset = errors.New("blob: the upload has another offset")
	// ErrIncomplete: the upload has fewer bytes than its size.
	ErrIncomplete = errors.New("blob: the upload is not complete")
	// ErrBusy: another append to the upload is running.
	ErrBusy = errors.New("blob: the upload is busy")
	// ErrUploads: the store has MaxUploads.
	ErrUploads = errors.New("blob: too many uploads")
	// ErrVerifying: the blob is long and is being verified. The verification continues, and later calls can wait for
	// its result.
	ErrVerifying = errors.New("blob: it is being verified")
	// ErrFiles: too many files of blobs are open.
	ErrFiles = errors.New("blob: too many open files")
	// ErrClient: no client can have this name.
	ErrClient = errors.New("blob: not a client name")
	// ErrClients: there are MaxClients.
	ErrClients = errors.New("blob: too many clients")
	// ErrUnavailable: the blobs are in another place, such as a bucket, which does not answer or refuses to serve.
	ErrUnavailable = errors.New("blob: the store of the blobs is not available")
	// ErrRefused: the place answers that it does not exist, or that this server may not use it. Trying again does not
	// help.
	ErrRefused = errors.New("refused")
)

// errBatchEnded is a mistake in the program that uses the batch.
var errBatchEnded = errors.New("blob: the batch has ended")

// errClosed is the error of a read after the store was closed.
var errClosed = errors.New("blob: the store is closed")

// DamagedError names the file of a store whose content differs from the content that its name promises, and says what
// to do next.
type DamagedError struct {
	File   string
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("blob: damaged: %s (file %s); next step: put the same content again, which replaces the file", e.Reason, e.File)
}

// Detail is the text of the error for clients: it names the blob, and not the place where it is stored.
func (e *DamagedError) Detail() string {
	name := path.Base(e.File)
	if ref, err := Parse(name); err == nil {
		name = ref.String()
	}
	return fmt.Sprintf("blob: damaged: %s (%s); next step: put the same content again, which replaces what is damaged", e.Reason, name)
}
