package crash

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"

	"github.com/daybookq/daybook/client"
)

// This file has the steps of an errand about blobs. A user stores blobs, and reads all of them repeatedly: after the
// upload was answered, a blob must have its bytes, and be found by its SHA-1 as well. An upload without an answer is
// repeated. The steps need no random numbers.

// maxOwnBlobs is how many of its newest blobs a user reads.
const maxOwnBlobs = 12

// ownBlobs are a user's blobs, by number.
type ownBlobs struct {
	blobs  int   // how many uploads it has tried
	stored []int // the newest maxOwnBlobs whose uploads were answered
}

// blobBytes returns the content of the n-th blob of a user. No two blobs have the same content.
func (e *errands) blobBytes(n int) []byte {
	h := fnv.New64a()
	_, _ = io.WriteString(h, e.name) // cannot fail
	rng := rand.New(rand.NewPCG(h.Sum64(), uint64(n)))
	sizes := [...]int{20, 700, 5_000, 60_000, 300_000}
	b := make([]byte, sizes[n%len(sizes)]+rng.IntN(20))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// putBlob stores a blob.
func (e *errands) putBlob() step {
	e.blobs++
	n := e.blobs
	return step{"store a blob", func(ctx context.Context) error {
		content := e.blobBytes(n)
		b, err := e.c.PutBlob(ctx, "", bytes.NewReader(content))
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256(content)); b.Address != want || b.Size != int64(len(content)) || b.SHA1 != fmt.Sprintf("%x", sha1.Sum(content)) {
			return impossiblef("a blob %s of %d bytes is stored as %+v", want, len(content), b)
		}
		if e.stored = append(e.stored, n); len(e.stored) > maxOwnBlobs {
			e.stored = e.stored[1:]
		}
		return nil
	}}
}

// readBlobs reads the blobs that were stored.
func (e *errands) readBlobs() step {
	return step{"read the blobs", func(ctx context.Context) error {
		for _, n := range e.stored {
			content := e.blobBytes(n)
			address := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
			if n%2 == 0 {
				address = fmt.Sprintf("%x", sha1.Sum(content))
			}
			got, err := readBlob(ctx, e.c, address)
			switch {
			case e.raw.badDisk && errors.Is(err, client.ErrBlobDamaged) && strings.Contains(err.Error(), syscall.EIO.Error()):
				return err // the disk cannot read; after the next start, a damaged blob cannot be read either
			case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrBlobDamaged):
				return impossiblef("blob %s of %d bytes was stored, and is read with the error %v", address, len(content), err)
			case err != nil:
				return err
			case !bytes.Equal(got, content):
				return impossiblef("blob %s of %d bytes reads as %d other bytes", address, len(content), len(got))
			}
		}
		return nil
	}}
}

func readBlob(ctx context.Context, c *client.Client, address string) (content []byte, err error) {
	b, err := c.GetBlob(ctx, "", address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return io.ReadAll(b)
}
