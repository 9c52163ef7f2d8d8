package s3

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
)

// The keys after the prefix. They equal the file names in a blob.Dir, so that a directory can be copied into a bucket.
const (
	blobsDir   = "blobs/sha256/"
	sha1Dir    = "sha1/"
	renewedDir = "renewed/" // empty objects. Their age counts from the last renewal of a blob
	clientsDir = "clients/"
)

// metaSHA1 is the user metadata of a blob with its SHA-1.
const metaSHA1 = "Daybook-Sha1"

// objects is the Remote of a client.
type objects struct {
	b      *Bucket
	prefix string
}

func (s *objects) blob(a blob.Address) string { return s.prefix + blobsDir + hex.EncodeToString(a[:]) }
func (s *objects) renewed(a blob.Address) string {
	return s.prefix + renewedDir + hex.EncodeToString(a[:])
}
func (s *objects) sha1(x blob.SHA1) string { return s.prefix + sha1Dir + x.String() }

// parseName reads the last part of the key of a blob.
func parseName(name string) (a blob.Address, ok bool) {
	if len(name) != hex.EncodedLen(len(a)) || strings.ToLower(name) != name {
		return a, false
	}
	_, err := hex.Decode(a[:], []byte(name))
	return a, err == nil
}

// Now is the clock of the service, estimated from its last answer.
func (s *objects) Now() time.Time { return s.b.transport.now() }

// Owned returns ErrOwned if another server has taken the bucket, and otherwise the time by the service's clock. Only
// the service can have made the answer, because it contains the random name of this run.
func (s *objects) Owned(ctx context.Context) (time.Time, error) { return s.b.owned(ctx) }

// Stat describes a blob.
func (s *objects) Stat(ctx context.Context, a blob.Address) (blob.RemoteInfo, error) {
	key := s.blob(a)
	o, err := s.b.core.StatObject(ctx, s.b.name(), key, minio.StatObjectOptions{})
	if err != nil {
		return blob.RemoteInfo{}, s.b.failed(ctx, "look at", key, err)
	}
	info := s.info(a, &o)
	if ref, err := blob.Parse(o.UserMetadata[metaSHA1]); err == nil && ref.SHA1 != nil {
		info.SHA1 = *ref.SHA1
	}
	return info, nil
}

func (s *objects) info(a blob.Address, o *minio.ObjectInfo) blob.RemoteInfo {
	return blob.RemoteInfo{Info: blob.Info{Address: a, Size: o.Size, Changed: o.LastModified}, Version: o.ETag, Place: s.b.place(s.blob(a))}
}

// Read reads n bytes of the version of a blob that Stat has described.
func (s *objects) Read(ctx context.Context, info blob.RemoteInfo, off, n int64) (io.ReadCloser, error) {
	if n == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	key := s.blob(info.Address)
	var o minio.GetObjectOptions
	err := o.SetMatchETag(info.Version)
	if err == nil && (off > 0 || n < info.Size) {
		err = o.SetRange(off, off+n-1)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", info.Place, err)
	}
	body, got, _, err := s.b.core.GetObject(ctx, s.b.name(), key, o)
	if isPrecondition(err) {
		return nil, fmt.Errorf("%w: read %s: it was put again meanwhile; next step: try again", blob.ErrUnavailable, info.Place)
	}
	if err != nil {
		return nil, s.b.failed(ctx, "read", key, err)
	}
	if got.Size != n {
		body.Close() // nothing is read from it
		return nil, fmt.Errorf("%w: read %s: the service sends %d bytes instead of %d", blob.ErrUnavailable, info.Place, got.Size, n)
	}
	return body, nil
}

// Remove removes a blob, and then its renewal.
func (s *objects) Remove(ctx context.Context, a blob.Address) error {
	for _, key := range []string{s.blob(a), s.renewed(a)} {
		if err := s.remove(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

func (s *objects) remove(ctx context.Context, key string) error {
	return s.b.failed(ctx, "remove", key, s.b.core.RemoveObject(ctx, s.b.name(), key, minio.RemoveObjectOptions{}))
}

// Renew makes a blob young.
func (s *objects) Renew(ctx context.Context, a blob.Address) error {
	key := s.renewed(a)
	return s.b.failed(ctx, "write", key, s.b.putSmall(ctx, key, nil, minio.PutObjectOptions{}))
}

// Renewed returns the time of the last Renew.
func (s *objects) Renewed(ctx context.Context, a blob.Address) (time.Time, error) {
	key := s.renewed(a)
	o, err := s.b.core.StatObject(ctx, s.b.name(), key, minio.StatObjectOptions{})
	return o.LastModified, s.b.failed(ctx, "look at", key, err)
}

// SHA1 reads an entry of the table: a line with an address.
func (s *objects) SHA1(ctx context.Context, x blob.SHA1) (a blob.Address, err error) {
	key := s.sha1(x)
	text, _, err := s.b.getSmall(ctx, key)
	if err != nil {
		return a, err
	}
	ref, err := blob.Parse(strings.TrimSuffix(string(text), "\n"))
	if err != nil || ref.SHA256 == nil || string(text) != ref.SHA256.String()+"\n" {
		return a, &blob.DamagedError{File: s.b.place(key), Reason: "it is not one line with an address"}
	}
	return *ref.SHA256, nil
}

// PutSHA1 writes an entry of the table.
func (s *objects) PutSHA1(ctx context.Context, x blob.SHA1, a blob.Address) error {
	key := s.sha1(x)
	return s.b.failed(ctx, "write", key, s.b.putSmall(ctx, key, []byte(a.String()+"\n"), minio.PutObjectOptions{}))
}

// AddSHA1 writes an entry of the table unless one exists. With a service without conditional requests it writes
// nothing.
func (s *objects) AddSHA1(ctx context.Context, x blob.SHA1, a blob.Address) (added bool, err error) {
	key := s.sha1(x)
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	err = s.b.putSmall(ctx, key, []byte(a.String()+"\n"), o)
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotImplemented: // 409: another request is running
		return false, nil
	}
	return err == nil, s.b.failed(ctx, "write", key, err)
}

// RemoveSHA1 removes an entry of the table.
func (s *objects) RemoveSHA1(ctx context.Context, x blob.SHA1) error { return s.remove(ctx, s.sha1(x)) }

// SHA1s lists the entries of the table.
func (s *objects) SHA1s(ctx context.Context, after *blob.SHA1, visit func(x blob.SHA1, changed time.Time) error) error {
	prefix := s.prefix + sha1Dir
	o := minio.ListObjectsOptions{Prefix: prefix, Recursive: true}
	if after != nil {
		o.StartAfter = prefix + after.String()
	}
	for object := range s.b.core.ListObjectsIter(ctx, s.b.name(), o) {
		if object.Err != nil {
			return s.b.failed(ctx, "list", prefix, object.Err)
		}
		if _, name, ok := s.b.parseKey(object.Key, sha1Dir); ok {
			ref, err := blob.Parse(name)
			if err != nil || ref.SHA1 == nil {
				continue
			}
			if err := visit(*ref.SHA1, object.LastModified); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// Each visits the blobs in the order of their addresses. It reads the list of renewals in parallel to the list of
// blobs.
func (s *objects) Each(ctx context.Context, after *blob.Address, most int, visit func(blob.RemoteInfo) error) error {
	renewals, stop := iter.Pull(s.list(ctx, renewedDir, after, most))
	defer stop()
	renewed, more := renewals()
	gone := func(before *blob.Address) error { // visits the renewals before the address of a blob
		for ; more && (renewed.err != nil || before == nil || bytes.Compare(renewed.a[:], before[:]) < 0); renewed, more = renewals() {
			if renewed.err != nil {
				return renewed.err
			}
			info := blob.Info{Address: renewed.a, Changed: renewed.object.LastModified}
			if err := visit(blob.RemoteInfo{Info: info, Gone: true}); err != nil {
				return err
			}
		}
		return nil
	}
	for o := range s.list(ctx, blobsDir, after, most) {
		if o.err != nil {
			return o.err
		}
		if err := gone(&o.a); err != nil {
			return err
		}
		info := s.info(o.a, &o.object)
		if more && renewed.err == nil && renewed.a == o.a {
			if renewed.object.LastModified.After(info.Changed) {
				info.Changed = renewed.object.LastModified
			}
			renewed, more = renewals()
		}
		if err := visit(info); err != nil {
			return err
		}
	}
	if err := gone(nil); err != nil {
		return err
	}
	return ctx.Err()
}

// IsEmpty reports whether no key has the prefix of the client.
func (s *objects) IsEmpty(ctx context.Context) (bool, error) {
	for o := range s.b.core.ListObjectsIter(ctx, s.b.name(), minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true, MaxKeys: 1}) {
		return false, s.b.failed(ctx, "list", s.prefix, o.Err)
	}
	return ctx.Err() == nil, ctx.Err()
}

// listed is an object whose name is an address.
type listed struct {
	a      blob.Address
	object minio.ObjectInfo
	err    error
}

// list lists the objects of a folder whose names are addresses. If the listing fails, its last element has the error.
func (s *objects) list(ctx context.Context, dir string, after *blob.Address, most int) iter.Seq[listed] {
	prefix := s.prefix + dir
	o := minio.ListObjectsOptions{Prefix: prefix, Recursive: true}
	if after != nil {
		o.StartAfter = prefix + hex.EncodeToString(after[:])
	}
	if most > 0 && most < 1000 {
		o.MaxKeys = most
	}
	return func(yield func(listed) bool) {
		for object := range s.b.core.ListObjectsIter(ctx, s.b.name(), o) {
			if object.Err != nil {
				yield(listed{err: s.b.failed(ctx, "list", prefix, object.Err)})
				return
			}
			if a, ok := parseName(strings.TrimPrefix(object.Key, prefix)); ok && !yield(listed{a: a, object: object}) {
				return
			}
		}
	}
}
