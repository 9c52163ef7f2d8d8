package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
)

// metaSHA1 is the user metadata of a blob with its SHA-1.
const metaSHA1 = "Daybook-Sha1"

// Stat describes a blob or a renewal.
func (b *Bucket) Stat(ctx context.Context, k blob.Key) (blob.Object, error) {
	key := b.key(k)
	o, err := b.core.StatObject(ctx, b.name(), key, minio.StatObjectOptions{})
	if err != nil {
		return blob.Object{}, b.failed(ctx, "look at", key, err)
	}
	return b.object(k, &o), nil
}

func (b *Bucket) object(k blob.Key, o *minio.ObjectInfo) blob.Object {
	info, _ := k.Info()
	info.Size, info.Changed = o.Size, o.LastModified
	if ref, err := blob.Parse(o.UserMetadata[metaSHA1]); err == nil && ref.SHA1 != nil {
		info.SHA1 = *ref.SHA1
	}
	return blob.Object{Info: info, Now: b.transport.now(), Place: b.place(b.key(k))}
}

// Open looks at a blob.
func (b *Bucket) Open(ctx context.Context, k blob.Key) (blob.Content, error) {
	key := b.key(k)
	o, err := b.core.StatObject(ctx, b.name(), key, minio.StatObjectOptions{})
	if err != nil {
		return nil, b.failed(ctx, "look at", key, err)
	}
	return &content{b, b.object(k, &o), version{key, o.ETag}}, nil
}

// content is a version of a blob.
type content struct {
	b       *Bucket
	object  blob.Object
	version version
}

type version struct{ key, tag string }

// Object describes the blob.
func (c *content) Object() blob.Object { return c.object }

// Version returns the key and the ETag.
func (c *content) Version() (any, error) { return c.version, nil }

// Again returns the same: each Range is a request.
func (c *content) Again() (blob.Content, error) { return c, nil }

// Close does nothing.
func (c *content) Close() error { return nil }

// Range requests n bytes. It returns blob.ErrUnavailable if the blob is now another version.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if n == 0 {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	var o minio.GetObjectOptions
	err := o.SetMatchETag(c.version.tag)
	if err == nil && (off > 0 || n < c.object.Size) {
		err = o.SetRange(off, off+n-1)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.object.Place, err)
	}
	body, got, _, err := c.b.core.GetObject(ctx, c.b.name(), c.version.key, o)
	if isPrecondition(err) {
		return nil, fmt.Errorf("%w: read %s: it was put again meanwhile; next step: try again", blob.ErrUnavailable, c.object.Place)
	}
	if err != nil {
		return nil, c.b.failed(ctx, "read", c.version.key, err)
	}
	if got.Size != n {
		body.Close() // nothing is read from it
		return nil, fmt.Errorf("%w: read %s: the service sends %d bytes instead of %d", blob.ErrUnavailable, c.object.Place, got.Size, n)
	}
	return &download{body, c.object.Place, off, off + n}, nil
}

// download is the body of an answer with a known number of bytes.
type download struct {
	io.ReadCloser
	place    string
	off, end int64
}

// Read returns blob.ErrUnavailable if the answer breaks off.
func (d *download) Read(p []byte) (int, error) {
	if d.off == d.end {
		return 0, io.EOF
	}
	n, err := d.ReadCloser.Read(p)
	d.off += int64(n)
	if err == nil || d.off == d.end {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("%w: read %s at byte %d: %w", blob.ErrUnavailable, d.place, d.off, err)
}

// Remove removes an object, and the renewal of a blob.
func (b *Bucket) Remove(ctx context.Context, k blob.Key) error {
	keys := []blob.Key{k}
	if k.Kind == blob.Blobs {
		keys = append(keys, renewal(k))
	}
	for _, k := range keys {
		key := b.key(k)
		if err := b.core.RemoveObject(ctx, b.name(), key, minio.RemoveObjectOptions{}); err != nil {
			return b.failed(ctx, "remove", key, err)
		}
	}
	return nil
}

// Sync does nothing: an acknowledged removal is durable.
func (b *Bucket) Sync(context.Context, string) error { return nil }

func renewal(k blob.Key) blob.Key {
	return blob.Key{Client: k.Client, Kind: blob.Renewals, Name: k.Name}
}

// Renew writes an empty object. A blob is as young as this object. S3 can change the age of an object only by a copy.
func (b *Bucket) Renew(ctx context.Context, k blob.Key) (*os.File, error) {
	key := b.key(renewal(k))
	return nil, b.failed(ctx, "write", key, b.putSmall(ctx, key, nil, minio.PutObjectOptions{}))
}

// List visits the objects of a kind in the order of their names. It reads the list of renewals in parallel to the list
// of blobs.
func (b *Bucket) List(ctx context.Context, client string, kind blob.Kind, after string, most int, visit func(blob.Object) error) error {
	next, stop := func() (blob.Object, error, bool) { return blob.Object{}, nil, false }, func() {}
	if kind == blob.Blobs {
		next, stop = iter.Pull2(b.list(ctx, client, blob.Renewals, after, most))
	}
	defer stop()
	renewed, failed, more := next()
	gone := func(before *blob.Address) error { // visits the renewals before the address of a blob
		for ; more && (failed != nil || before == nil || bytes.Compare(renewed.Address[:], before[:]) < 0); renewed, failed, more = next() {
			if failed != nil {
				return failed
			}
			renewed.Gone = true
			if err := visit(renewed); err != nil {
				return err
			}
		}
		return nil
	}
	for o, err := range b.list(ctx, client, kind, after, most) {
		if err != nil {
			return err
		}
		if err := gone(&o.Address); err != nil {
			return err
		}
		if more && renewed.Address == o.Address {
			if renewed.Changed.After(o.Changed) {
				o.Changed = renewed.Changed
			}
			renewed, failed, more = next()
		}
		if err := visit(o); err != nil {
			return err
		}
	}
	if err := gone(nil); err != nil {
		return err
	}
	return ctx.Err()
}

// list lists the objects of a kind. If the listing fails, its last element has the error.
func (b *Bucket) list(ctx context.Context, client string, kind blob.Kind, after string, most int) iter.Seq2[blob.Object, error] {
	prefix := b.o.Address.Prefix + blob.Folder(client, kind)
	o := minio.ListObjectsOptions{Prefix: prefix, Recursive: true}
	if after != "" {
		o.StartAfter = prefix + after
	}
	if most > 0 && most < 1000 {
		o.MaxKeys = most
	}
	return func(yield func(blob.Object, error) bool) {
		for object := range b.core.ListObjectsIter(ctx, b.name(), o) {
			if object.Err != nil {
				yield(blob.Object{}, b.failed(ctx, "list", prefix, object.Err))
				return
			}
			if k, ok := b.parse(object.Key); ok && k.Client == client && k.Kind == kind && !yield(b.object(k, &object), nil) {
				return
			}
		}
	}
}

// SHA1 reads an entry of the table.
func (b *Bucket) SHA1(ctx context.Context, client string, x blob.SHA1) (a blob.Address, err error) {
	key := b.sha1(client, x)
	text, _, err := b.getSmall(ctx, key)
	if err != nil {
		return a, err
	}
	return blob.ParseEntry(text, b.place(key))
}

func (b *Bucket) sha1(client string, x blob.SHA1) string {
	return b.key(blob.Key{Client: client, Kind: blob.SHA1s, Name: x.String()})
}
