package s3

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
)

const (
	// partBytes is the size from which a blob is copied in parts. It bounds the bytes that must be sent again after an
	// error.
	partBytes = 64 << 20
	// maxParts is the largest number of parts that S3 allows.
	maxParts = 10_000
	// partsAtOnce is the number of parts of a blob that are sent concurrently. They are read from the file as they are
	// sent.
	partsAtOnce = 4
	// abortFor is the time for which a failed multipart upload tries to remove its parts. The next start removes the
	// rest.
	abortFor = 10 * time.Second
)

// Put copies files. The signature of each request contains the SHA-256 of its body, and the service compares it with the
// bytes that it has received.
func (b *Bucket) Put(ctx context.Context, client string, files []*blob.File) error {
	for _, f := range files {
		if err := b.put(ctx, client, f); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bucket) put(ctx context.Context, client string, f *blob.File) (err error) {
	if !f.HasSHA1 {
		if err := b.keepSHA1(ctx, client, f.SHA1, f.Address); err != nil {
			return err
		}
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return fmt.Errorf("copy blob: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	key := b.blob(client, f.Address)
	part := max(cmp.Or(b.o.PartBytes, partBytes), (f.Size+maxParts-1)/maxParts)
	if f.Size > part {
		err = b.putParts(ctx, key, file, f.Info, part)
	} else {
		_, err = b.core.PutObject(ctx, b.name(), key, io.NewSectionReader(file, 0, f.Size), f.Size, "", hex.EncodeToString(f.Address[:]), putOptions(f.Info))
	}
	f.Changed = b.transport.now()
	return b.failed(ctx, "write", key, err)
}

func (b *Bucket) blob(client string, a blob.Address) string {
	return b.key(blob.Key{Client: client, Kind: blob.Blobs, Name: hex.EncodeToString(a[:])})
}

// keepSHA1 writes an entry of the table, unless it exists or leads to another blob that exists. Usually it writes the
// entry in one request, if the table has none.
func (b *Bucket) keepSHA1(ctx context.Context, client string, x blob.SHA1, a blob.Address) error {
	key, entry := b.sha1(client, x), []byte(blob.Entry(a))
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	err := b.putSmall(ctx, key, entry, o)
	switch minio.ToErrorResponse(err).StatusCode {
	case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotImplemented: // 409: another request is running; 501: there are no conditional requests
	default:
		return b.failed(ctx, "write", key, err)
	}
	old, err := b.SHA1(ctx, client, x)
	if err == nil && old != a {
		_, err = b.Stat(ctx, blob.Key{Client: client, Kind: blob.Blobs, Name: hex.EncodeToString(old[:])})
	}
	if _, damaged := errors.AsType[*blob.DamagedError](err); !damaged && !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	return b.failed(ctx, "write", key, b.putSmall(ctx, key, entry, minio.PutObjectOptions{}))
}

func putOptions(info blob.Info) minio.PutObjectOptions {
	return minio.PutObjectOptions{
		DisableContentSha256: true, // one digest for all bytes, instead of one for each chunk
		ContentType:          "application/octet-stream",
		UserMetadata:         map[string]string{metaSHA1: info.SHA1.String()},
	}
}

// putParts copies a long blob.
func (b *Bucket) putParts(ctx context.Context, key string, file io.ReaderAt, info blob.Info, part int64) error {
	id, err := b.core.NewMultipartUpload(ctx, b.name(), key, putOptions(info))
	if err != nil {
		return err
	}
	u := &partsUpload{b: b, key: key, id: id, file: file, size: info.Size, part: part}
	sum, err := u.send(ctx)
	if err == nil && sum != info.Address { // S3 has verified the parts against the file, which differs from the received bytes
		err = fmt.Errorf("copy blob: its file has changed; the digest is now %s", sum)
	}
	if err == nil {
		err = b.join(ctx, key, id, u.sent)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortFor)
		defer cancel()
		_ = b.core.AbortMultipartUpload(ctx, b.name(), key, id) // the next start tries again
	}
	return err
}

// join joins parts into one object.
func (b *Bucket) join(ctx context.Context, key, id string, sent []minio.CompletePart) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, joining{}, true), joinFor)
	defer cancel()
	_, err := b.core.CompleteMultipartUpload(ctx, b.name(), key, id, sent, minio.PutObjectOptions{})
	return err
}

// partsUpload is an upload in parts.
type partsUpload struct {
	b          *Bucket
	key, id    string
	file       io.ReaderAt
	size, part int64
	sent       []minio.CompletePart
}

// send sends all parts, several at a time, and returns the digest of all. Each part is read twice: first for its
// digest, which the head of its request contains, and for the digest of all, and then to be sent. S3 compares the
// part's digest with the bytes.
func (u *partsUpload) send(ctx context.Context) (sum blob.Address, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	u.sent = make([]minio.CompletePart, (u.size+u.part-1)/u.part)
	type hashed struct {
		i   int
		sum string
	}
	next := make(chan hashed)
	var running sync.WaitGroup
	for range min(partsAtOnce, len(u.sent)) {
		running.Go(func() {
			for h := range next {
				if err := u.sendPart(ctx, h.i, h.sum); err != nil {
					cancel(err)
				}
			}
		})
	}
	whole, one := sha256.New(), sha256.New()
	for i := 0; i < len(u.sent) && ctx.Err() == nil; i++ {
		one.Reset()
		if _, err := io.Copy(io.MultiWriter(whole, one), u.section(i)); err != nil {
			cancel(fmt.Errorf("read part %d: %w", i+1, err))
			break
		}
		next <- hashed{i, hex.EncodeToString(one.Sum(nil))}
	}
	close(next)
	running.Wait()
	return blob.Address(whole.Sum(nil)), context.Cause(ctx)
}

func (u *partsUpload) section(i int) *io.SectionReader {
	off := int64(i) * u.part
	return io.NewSectionReader(u.file, off, min(u.part, u.size-off))
}

func (u *partsUpload) sendPart(ctx context.Context, i int, sum string) error {
	from := u.section(i)
	sent, err := u.b.core.PutObjectPart(ctx, u.b.name(), u.key, u.id, i+1, from, from.Size(), minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true})
	u.sent[i] = minio.CompletePart{PartNumber: i + 1, ETag: sent.ETag}
	return err
}
