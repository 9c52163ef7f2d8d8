package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/minio/minio-go/v7"

	"github.com/daybookq/daybook/blob"
)

// chunksDir is a part of the keys of chunks.
const chunksDir = "chunks/sha256/"

// Chunks keeps chunks in a bucket, for the programs that create and run jobs and read their results: it is a ChunkStore of the
// Go client. The server does not use it, and any number of programs may use the same prefix. Its methods may be called by many
// goroutines.
type Chunks struct{ b *Bucket }

// OpenChunks opens a store of chunks in the bucket of an address: see ParseAddress. It sends no request. Credentials are found as
// those of a server are; they must allow GetObject, PutObject, or both. Nothing removes chunks: the bucket may have a rule that
// expires the objects with the prefix PREFIX/chunks/, later than jobs and results are kept.
func OpenChunks(address string) (*Chunks, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	b, err := connect(Options{Address: a})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", &a, errors.Join(err, b.Close()))
	}
	return &Chunks{b}, nil
}

// Close ends all requests that are under way.
func (s *Chunks) Close() error { return s.b.Close() }

func (s *Chunks) key(a blob.Address) string {
	return s.b.o.Address.Prefix + chunksDir + hex.EncodeToString(a[:])
}

// Put stores a chunk, and returns its address. The service compares the bytes with their digest, which is in the request.
func (s *Chunks) Put(ctx context.Context, chunk []byte) (address string, err error) {
	a := blob.Address(sha256.Sum256(chunk))
	key, n := s.key(a), int64(len(chunk))
	o := minio.PutObjectOptions{DisableContentSha256: true, ContentType: "application/octet-stream"}
	if _, err := s.b.core.PutObject(ctx, s.b.name(), key, bytes.NewReader(chunk), n, "", hex.EncodeToString(a[:]), o); err != nil {
		return "", s.b.failed(ctx, "write", key, err)
	}
	return a.String(), nil
}

// Get opens a chunk. The error is fs.ErrNotExist if there is none. The client of the queue compares its bytes with the address.
func (s *Chunks) Get(ctx context.Context, address string) (io.ReadCloser, error) {
	ref, err := blob.Parse(address)
	if err == nil && ref.SHA256 == nil {
		err = errors.New("a bucket of chunks has no SHA-1 of them")
	}
	if err != nil {
		return nil, err
	}
	key := s.key(*ref.SHA256)
	body, _, _, err := s.b.core.GetObject(ctx, s.b.name(), key, minio.GetObjectOptions{})
	if err = s.b.failed(ctx, "read", key, err); errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, s.b.place(key))
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}
