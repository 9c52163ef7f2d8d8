package blob

import (
	"context"
	"io"
	"time"
)

// Store stores blobs under the digests of their bytes, in a directory or in a bucket. Each method can also return
// ErrUnavailable, if there is a bucket and it does not answer. Methods may be called by many goroutines.
type Store interface {
	// Put stores a stream and returns when it is durable. If want names a digest, other content is refused with
	// ErrDigest. Put also returns ErrTooLarge, ErrQuota, ErrNoSpace, or the error of ctx or of r.
	Put(ctx context.Context, r io.Reader, want Ref) (Info, error)
	// NewBatch begins a batch for many blobs. Its caller must end it with Commit or Discard.
	NewBatch(ctx context.Context) (Batch, error)
	// NewUpload begins an upload that can be resumed, even after a restart. size is the size of the blob, or -1 if it
	// is not known yet. NewUpload returns the errors of Put, and ErrUploads.
	NewUpload(ctx context.Context, size int64, want Ref) (Upload, error)
	// Upload returns an upload that was begun, or ErrNotFound. An upload is kept for UploadExpiry after its last
	// progress.
	Upload(ctx context.Context, id string) (Upload, error)
	// Resolve returns the address that ref names, or ErrNotFound. It does not check that the blob itself is stored.
	Resolve(ctx context.Context, ref Ref) (Address, error)
	// Get opens a blob, or returns ErrNotFound. ctx ends its reads.
	Get(ctx context.Context, a Address) (Blob, error)
	// Stat describes a blob that is stored durably, or returns ErrNotFound. It does not read the blob.
	Stat(ctx context.Context, a Address) (Info, error)
	// Missing returns the blobs that are not stored. A later sweep keeps the stored ones as if they had just been put.
	Missing(ctx context.Context, all []Address) ([]Address, error)
	// Sizes does the work of Missing, and returns the size of each blob in bytes, in the order of its argument. The
	// size of a missing blob is NotStored.
	Sizes(ctx context.Context, all []Address) ([]int64, error)
	// List returns up to limit blobs after a given address, in the order of their addresses.
	List(ctx context.Context, after *Address, limit int) ([]Info, error)
	// Delete removes a blob at once, or returns ErrNotFound.
	Delete(ctx context.Context, a Address) error
	// Sweep removes the blobs that are older than Options.Grace and that live does not name.
	Sweep(ctx context.Context, live func(Address) bool) (Swept, error)
	// Used returns the bytes of all blobs and of unfinished uploads.
	Used() int64
	Close() error
}

// NotStored is the size of a blob that is not stored.
const NotStored = -1

// Batch puts many blobs for the cost of a few. Several goroutines may call Add concurrently, but not together with
// Commit or Discard.
type Batch interface {
	// Add receives a blob as Put does, with the same errors, and ErrBatchFull. After a failed Add the batch continues
	// without this blob. Info.Existed reports that the store or the batch had the blob.
	Add(ctx context.Context, r io.Reader, want Ref) (Info, error)
	// Commit returns when all blobs of the batch are durable. Until then, reads see none of them. If Commit fails, none
	// of them is added. A crash may leave some of them, whole. The next sweep after the grace removes these. Commit
	// returns ErrNotFound if a blob that was stored when it was added was deleted since.
	Commit(ctx context.Context) error
	// Discard ends the batch and removes the added blobs. After Commit it does nothing.
	Discard() error
}

// Upload is a blob that arrives in several parts. Its methods may be called by many goroutines. One call of Describe,
// Append, Finish or Remove runs at a time. A second call waits up to 5 seconds, but returns ErrBusy after a quarter of
// a second if an Append is still receiving its stream.
type Upload interface {
	State() UploadState
	// Describe stores a text of up to MaxMetadata bytes of UTF-8 with the upload, and replaces an earlier one. The text
	// is durable when Describe returns.
	Describe(ctx context.Context, metadata string) error
	// Append writes a stream to the end of the upload, which must be at offset; otherwise it returns ErrOffset. When it
	// returns nil, all bytes are durable. If the stream or ctx ends it early, it returns their error, and State has the
	// offset of the durable bytes. It also returns ErrTooLarge, ErrQuota and ErrNoSpace.
	Append(ctx context.Context, offset int64, r io.Reader) error
	// Finish stores the blob, as Put does. It may be called again. It returns ErrIncomplete if the upload has fewer
	// bytes than its size. After ErrDigest the upload is removed.
	Finish(ctx context.Context) (Info, error)
	// Remove ends the upload and removes its bytes. If Finish has stored a blob, the blob stays.
	Remove(ctx context.Context) error
}

// UploadState describes an upload.
type UploadState struct {
	ID      string    // secret: whoever knows it may append
	Size    int64     // of the blob; -1: not known yet
	Offset  int64     // number of durable bytes
	Expires time.Time // the upload is removed then, unless there is progress
	Blob    *Address  // set when the upload is finished
	Busy    bool      // an Append, Finish or Remove is running
	// Metadata is the text of Describe.
	Metadata string
}

// Blob is a stored blob that is open for reading. One goroutine uses it at a time, except for ReadAt.
//
// Read, ReadAt and Seek give any range. Before they return the first byte, they verify the whole blob, unless it was
// verified in the last minutes. WriteTo, which io.Copy uses, is for readers of everything: it reads the blob only once.
// If the blob is damaged, they return a *DamagedError, and the reader has got fewer bytes than the size of the blob.
type Blob interface {
	Info() Info
	// Verify returns a *DamagedError unless the blob has the bytes that its address promises. If the blob is long, it
	// may return ErrVerifying after some seconds. The verification continues, and the next call waits for it again.
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
	Changed time.Time // when it was last put or renewed
	Existed bool      // only from Put: the store already had it, intact or damaged
}

// Swept counts the things that a sweep has removed.
type Swept struct {
	Blobs   int
	Bytes   int64
	SHA1s   int // entries of the table
	Uploads int // resumable ones that had expired
}
