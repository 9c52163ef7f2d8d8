package blob

import (
	"context"
	"io"
	"time"
)

// Store keeps blobs under the digests of their bytes, in a directory or in a bucket. Each method can also return
// ErrUnavailable, if there is a bucket and it does not answer. Its methods may be called by many goroutines.
type Store interface {
	// Put stores a stream and returns when it is durable. If want names a digest, other content is refused with
	// ErrDigest. It also returns ErrTooLarge, ErrQuota, ErrNoSpace, the error of ctx or of r.
	Put(ctx context.Context, r io.Reader, want Ref) (Info, error)
	// NewBatch begins a batch, for many blobs at once. Its caller must end it by Commit or Discard.
	NewBatch(ctx context.Context) (Batch, error)
	// NewUpload begins an upload that can be resumed, also after a restart. size is that of the blob, or -1 if it is not
	// known yet. It returns the errors of Put, and ErrUploads.
	NewUpload(ctx context.Context, size int64, want Ref) (Upload, error)
	// Upload returns an upload that was begun, or ErrNotFound. It is kept for UploadExpiry after its last progress.
	Upload(ctx context.Context, id string) (Upload, error)
	// Resolve returns the address that ref names, or ErrNotFound. It does not look for the blob itself.
	Resolve(ctx context.Context, ref Ref) (Address, error)
	// Get opens a blob, or returns ErrNotFound. ctx ends its reads.
	Get(ctx context.Context, a Address) (Blob, error)
	// Stat describes a blob that is stored durably, or returns ErrNotFound. It does not read the blob.
	Stat(ctx context.Context, a Address) (Info, error)
	// Missing returns which of the blobs are not stored. A sweep that begins later keeps the others as if they had just
	// been put.
	Missing(ctx context.Context, all []Address) ([]Address, error)
	// Sizes is Missing with the size in bytes of each blob, in the order of its argument. That of a missing one is
	// NotStored.
	Sizes(ctx context.Context, all []Address) ([]int64, error)
	// List returns up to limit blobs in the order of their addresses, those after a given one.
	List(ctx context.Context, after *Address, limit int) ([]Info, error)
	// Delete removes a blob at once, or returns ErrNotFound.
	Delete(ctx context.Context, a Address) error
	// Sweep removes the blobs that are older than Options.Grace and that live does not name.
	Sweep(ctx context.Context, live func(Address) bool) (Swept, error)
	// Used returns the bytes of all blobs and of the uploads under way.
	Used() int64
	Close() error
}

// NotStored is the size of a blob that is not stored.
const NotStored = -1

// Batch puts many blobs for the cost of a few. Several goroutines may call Add at once, but not together with Commit or
// Discard.
type Batch interface {
	// Add receives a blob as Put does, with the same errors, and ErrBatchFull. The batch goes on after a failed Add,
	// without this blob. Info.Existed reports that the store or the batch had the blob.
	Add(ctx context.Context, r io.Reader, want Ref) (Info, error)
	// Commit returns when all blobs of the batch are durable. Before, reads see none of them. If it fails, none of them
	// is added. A crash may leave some of them, whole, which the next sweep after the grace removes. It returns
	// ErrNotFound if a blob that was stored when it was added was deleted since.
	Commit(ctx context.Context) error
	// Discard ends the batch and removes what was added. After Commit it does nothing.
	Discard() error
}

// Upload is a blob that arrives in several parts. Its methods may be called by many goroutines. One of Describe, Append,
// Finish and Remove runs at a time. Another call waits up to 5 seconds, but returns ErrBusy after a quarter of a second if
// an Append goes on to receive its stream.
type Upload interface {
	State() UploadState
	// Describe keeps a text with the upload, in place of an earlier one, of up to MaxMetadata bytes of UTF-8. It is
	// durable when Describe returns.
	Describe(ctx context.Context, metadata string) error
	// Append writes a stream to the end of the upload, which must be at offset; otherwise it returns ErrOffset. When it
	// returns nil, all bytes are durable. If the stream or ctx ends it early, it returns their error, and State has the
	// offset of the bytes that are durable. It also returns ErrTooLarge, ErrQuota and ErrNoSpace.
	Append(ctx context.Context, offset int64, r io.Reader) error
	// Finish stores the blob, as Put does. It may be called again. It returns ErrIncomplete if the upload has fewer
	// bytes than its size. After ErrDigest the upload is gone.
	Finish(ctx context.Context) (Info, error)
	// Remove ends the upload and removes its bytes. A blob that it has stored stays.
	Remove(ctx context.Context) error
}

// UploadState describes an upload.
type UploadState struct {
	ID      string    // whoever knows it may append
	Size    int64     // of the blob; -1: not known yet
	Offset  int64     // how many bytes are durable
	Expires time.Time // it is removed then, unless there is progress
	Blob    *Address  // set when the upload is finished
	Busy    bool      // Append, Finish or Remove runs
	// Metadata is the text of Describe.
	Metadata string
}

// Blob is a stored blob that is open for reading. One goroutine uses it at a time, except for ReadAt.
//
// Read, ReadAt and Seek give any range. Before the first byte the whole blob is verified, unless that was done in the
// last minutes. WriteTo, which io.Copy uses, is for readers of everything: it reads the blob only once. If the blob is
// damaged, they return a *DamagedError, and the reader has got fewer bytes than its size.
type Blob interface {
	Info() Info
	// Verify returns a *DamagedError unless the blob has the bytes that its address promises. If the blob is long, it
	// may return ErrVerifying after some seconds. The verification goes on, and the next call waits for it again.
	Verify() error
	io.ReadSeekCloser
	io.ReaderAt
	io.WriterTo
}

// Info describes a stored blob.
type Info struct {
	Address Address
	SHA1    SHA1 // only from Put
	Size    int64
	Changed time.Time // when it was put or renewed last
	Existed bool      // only from Put: the store had it before, intact or damaged
}

// Swept counts what a sweep has removed.
type Swept struct {
	Blobs   int
	Bytes   int64
	SHA1s   int // entries of the table
	Uploads int // resumable ones that had expired
}
