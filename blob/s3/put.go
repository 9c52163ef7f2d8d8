package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
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

// Put stores a blob. The signature of each request contains the SHA-256 of its body, and the service compares it with
// the bytes that it has received.
func (s *objects) Put(ctx context.Context, file io.ReaderAt, info blob.Info) error {
	key, part := s.blob(info.Address), s.b.o.PartBytes
	if part == 0 {
		part = partBytes
	}
	part = max(part, (info.Size+maxParts-1)/maxParts)
	o := putOptions(info)
	if info.Size > part {
		return s.b.failed(ctx, "write", key, s.putParts(ctx, key, file, info, part, o))
	}
	_, err := s.b.core.PutObject(ctx, s.b.name(), key, io.NewSectionReader(file, 0, info.Size), info.Size, "", hex.EncodeToString(info.Address[:]), o)
	return s.b.failed(ctx, "write", key, err)
}

func putOptions(info blob.Info) minio.PutObjectOptions {
	return minio.PutObjectOptions{
		DisableContentSha256: true, // one digest for all bytes, instead of one for each chunk
		ContentType:          "application/octet-stream",
		UserMetadata:         map[string]string{metaSHA1: info.SHA1.String()},
	}
}

// putParts copies a long blob.
func (s *objects) putParts(ctx context.Context, key string, file io.ReaderAt, info blob.Info, part int64, o minio.PutObjectOptions) error {
	id, err := s.b.core.NewMultipartUpload(ctx, s.b.name(), key, o)
	if err != nil {
		return err
	}
	u := &partsUpload{s: s, key: key, id: id, file: file, size: info.Size, part: part}
	sum, err := u.send(ctx)
	if err == nil && sum != info.Address { // S3 has verified the parts against the file, which differs from the received bytes
		err = fmt.Errorf("copy blob: its file has changed; the digest is now %s", sum)
	}
	if err == nil {
		err = s.join(ctx, key, id, u.sent)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortFor)
		defer cancel()
		_ = s.b.core.AbortMultipartUpload(ctx, s.b.name(), key, id) // the next start tries again
	}
	return err
}

// join joins parts into one object.
func (s *objects) join(ctx context.Context, key, id string, sent []minio.CompletePart) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, joining{}, true), joinFor)
	defer cancel()
	_, err := s.b.core.CompleteMultipartUpload(ctx, s.b.name(), key, id, sent, minio.PutObjectOptions{})
	return err
}

// partsUpload is an upload in parts.
type partsUpload struct {
	s          *objects
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
	sent, err := u.s.b.core.PutObjectPart(ctx, u.s.b.name(), u.key, u.id, i+1, from, from.Size(), minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true})
	u.sent[i] = minio.CompletePart{PartNumber: i + 1, ETag: sent.ETag}
	return err
}
