package blob

import (
	"context"
	"io"
	"os"
	"strings"
	"time"
)

// Backend is the place in which a Store keeps its blobs, and their entries in the table of SHA-1 digests: a directory,
// or a bucket (package blob/s3). Store receives the bytes, counts them, and decides which blobs are removed.
//
// Methods may be called by many goroutines. Store makes sure that one at a time changes the objects of one digest.
// Methods return ErrNotFound if the object does not exist, and ErrUnavailable if the place does not answer. A failed
// call of Put or Remove may have been carried out.
type Backend interface {
	// Usage returns the bytes of the blobs of each client that has any object, and with "" the bytes of the shared ones.
	Usage(ctx context.Context) (map[string]int64, error)
	// Stat describes a blob or a renewal. The age of a blob counts from its last Put, and in a directory also from its
	// last Renew.
	Stat(ctx context.Context, k Key) (Object, error)
	// Open opens a blob for reading.
	Open(ctx context.Context, k Key) (Content, error)
	// Put stores files as blobs, after their entries of the table, and replaces existing blobs. If it returns nil, all of
	// them are durable and visible. A bucket gets one file at a time. A directory shows all files or none.
	Put(ctx context.Context, client string, files []*File) error
	// Renew makes a blob young. If the new age is not durable yet, it returns the file that must be synced and closed.
	Renew(ctx context.Context, k Key) (*os.File, error)
	// Remove removes an object, and the renewal of a blob. If the object does not exist, it does nothing. After a crash
	// an object may be there again, unless Sync was called.
	Remove(ctx context.Context, k Key) error
	// Sync makes the removals of a client's blobs durable.
	Sync(ctx context.Context, client string) error
	// List calls visit with the objects of a kind whose names are after a given name. most is about the number of objects
	// to visit; 0 means all. In a bucket, and if most is not 0, the names are in order. The list of blobs has the time of
	// the last Put or Renew of each, and renewals without a blob.
	List(ctx context.Context, client string, kind Kind, after string, most int, visit func(Object) error) error
	// SHA1 returns an entry of the table, or a *DamagedError.
	SHA1(ctx context.Context, client string, x SHA1) (Address, error)
	// Forget removes the rest of a client that stores nothing. It returns false if the client has any object.
	Forget(ctx context.Context, client string) (bool, error)
	// Owned returns an error if another server has taken the place. Otherwise it returns the time by the place's clock,
	// from the same answer. A sweep calls it first.
	Owned(ctx context.Context) (time.Time, error)
	// Close ends all outstanding calls.
	Close() error
}

// Object describes an object of a backend.
type Object struct {
	Info            // SHA1 of a blob is zero if the place does not know it
	Now   time.Time // by the place's clock, only from Stat. Changed is by the same clock
	Place string    // the name of the object in the place, for errors
	// Hidden: a blob is not durable yet, or is not a file. Its bytes count, but reads treat it as absent.
	Hidden bool
	Gone   bool // only from List: the blob does not exist, but a renewal of it does
}

// plain is the description as callers of a Store get it.
func (o *Object) plain() Info {
	info := o.Info
	info.SHA1 = SHA1{} // only from Put
	return info
}

// File is a received file that becomes a blob.
type File struct {
	Info           // of its bytes. A bucket sets Changed when it has the blob
	HasSHA1 bool   // the table is known to have its entry
	Path    string // "": the blob is already stored, and only its entry may be missing. A directory takes the file over, and sets this to ""
	// EntryPath is the path of a durable file with the entry, for a directory. "": none was prepared.
	EntryPath string
}

// Content is one version of a blob that is open for reading. Range may be called by many goroutines.
type Content interface {
	Object() Object
	// Version identifies the bytes: it is another value once the blob has changed. Values can be compared by ==.
	Version() (any, error)
	// Range returns n bytes from an offset. A read returns ErrUnavailable if the stream breaks off, and a *DamagedError if
	// the place cannot read the bytes.
	Range(ctx context.Context, off, n int64) (io.ReadCloser, error)
	// Again opens the same version once more.
	Again() (Content, error)
	Close() error
}

// MaxEntryBytes is more than the length of any entry of the table.
const MaxEntryBytes = 100

// Entry is the text of an entry of the table of SHA-1 digests.
func Entry(a Address) string { return a.String() + "\n" }

// ParseEntry reads an entry of the table, or returns a *DamagedError that names the entry's place.
func ParseEntry(text []byte, place string) (Address, error) {
	ref, err := Parse(strings.TrimSuffix(string(text), "\n"))
	if err != nil || ref.SHA256 == nil || string(text) != Entry(*ref.SHA256) {
		return Address{}, &DamagedError{place, "it is not one line with an address"}
	}
	return *ref.SHA256, nil
}

// RequestMethods are the methods of requests to a bucket.
var RequestMethods = []string{"DELETE", "GET", "HEAD", "POST", "PUT"}

// RequestStats counts the requests of one method.
type RequestStats struct {
	Requests int64
	Failures int64   // no answer, or an answer with a status of 500 and more, 429 or 403
	Seconds  float64 // until the answer began
}
