package blob

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/daybookq/daybook/job/digest"
)

// Address is the SHA-256 of a blob's bytes.
type Address = digest.SHA256

// SHA1 is the SHA-1 of a blob's bytes.
type SHA1 = digest.SHA1

// Ref names content by one of its digests. The zero Ref names nothing.
type Ref = digest.Ref

// Parse reads an address in any of its forms. It returns ErrAddress for other texts.
func Parse(text string) (Ref, error) { return digest.Parse(text) }

// NotStored is the size of a blob that is not stored.
const NotStored = -1

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

func (s *Swept) add(other Swept) {
	s.Blobs += other.Blobs
	s.Bytes += other.Bytes
	s.SHA1s += other.SHA1s
	s.Uploads += other.Uploads
}

// Kind is a kind of objects that a backend keeps. Its text is the folder of the objects.
type Kind string

// The kinds of objects.
const (
	Blobs    Kind = "blobs/sha256/"
	SHA1s    Kind = "sha1/"    // the table of SHA-1 digests: each entry has a line with an address
	Renewals Kind = "renewed/" // empty objects, in buckets only. Their age counts from the last renewal of a blob
)

// clientsFolder has a folder for each client.
const clientsFolder = "clients/"

// Key names an object of a client, or with "" an object that all clients share. Name is in lower-case hex digits.
type Key struct {
	Client string
	Kind   Kind
	Name   string
}

func blobKey(client string, a Address) Key    { return Key{client, Blobs, hex.EncodeToString(a[:])} }
func sha1Key(client string, x SHA1) Key       { return Key{client, SHA1s, x.String()} }
func renewalKey(client string, a Address) Key { return Key{client, Renewals, hex.EncodeToString(a[:])} }

// Path is the path of the object below the directory, or the prefix, of the store. It is the same in each backend, so
// that a directory can be copied into a bucket.
func (k Key) Path() string { return Folder(k.Client, k.Kind) + k.Name }

// Folder is the path of the objects of a kind.
func Folder(client string, kind Kind) string {
	if client == "" {
		return string(kind)
	}
	return clientsFolder + client + "/" + string(kind)
}

// ParsePath is the inverse of Path. It returns false for the paths of other things.
func ParsePath(path string) (k Key, ok bool) {
	if after, isClient := strings.CutPrefix(path, clientsFolder); isClient {
		if k.Client, path, ok = strings.Cut(after, "/"); !ok || k.Client == "" {
			return Key{}, false
		}
	}
	for _, kind := range []Kind{Blobs, SHA1s, Renewals} {
		name, found := strings.CutPrefix(path, string(kind))
		if !found {
			continue
		}
		k.Kind, k.Name = kind, name
		_, ok = k.Info()
		return k, ok
	}
	return Key{}, false
}

// Info returns the digest that the name of the object is, and false if it is none.
func (k Key) Info() (info Info, ok bool) {
	into := info.Address[:]
	if k.Kind == SHA1s {
		into = info.SHA1[:]
	}
	if len(k.Name) != hex.EncodedLen(len(into)) || strings.ToLower(k.Name) != k.Name {
		return Info{}, false
	}
	_, err := hex.Decode(into, []byte(k.Name))
	return info, err == nil
}

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
	// ErrUploads: the client has MaxUploads, or the store has MaxAllUploads.
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
