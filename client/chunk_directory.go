package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/daybookq/daybook/job/digest"
)

// OpenChunks opens the store of a URL. file:///DIR is a directory: see OpenChunkDirectory. A bucket (s3://BUCKET/PREFIX) is
// opened by OpenChunks of the package github.com/daybookq/daybook/blob/s3, so that other programs do not have its library.
func OpenChunks(text string) (ChunkStore, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the address of a store of chunks: %w", ErrBadRequest, err)
	case u.Scheme == "s3":
		return nil, fmt.Errorf("%w: open the bucket of chunks with OpenChunks of the package github.com/daybookq/daybook/blob/s3", ErrBadRequest)
	case u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%w: a store of chunks has the address file:///DIR, not %.200q", ErrBadRequest, text)
	}
	return OpenChunkDirectory(filepath.FromSlash(u.Path))
}

// chunkDirectory has each chunk in a file DIR/sha256/<64 hex digits>, as a directory of blobs has them. Files that are being
// written are in DIR/new.
type chunkDirectory struct{ chunks, unfinished string }

// unfinishedFor is how old a file in DIR/new is when its program must have ended.
const unfinishedFor = 24 * time.Hour

// OpenChunkDirectory opens a store of chunks in a directory, which all programs that use it must see, such as one of a network
// file system. The directory is created if need be. Nothing removes chunks from it.
func OpenChunkDirectory(dir string) (ChunkStore, error) {
	d := chunkDirectory{filepath.Join(dir, "sha256"), filepath.Join(dir, "new")}
	err := errors.Join(os.MkdirAll(d.chunks, 0o777), os.MkdirAll(d.unfinished, 0o777))
	if err == nil {
		err = errors.Join(syncDirectory(dir), d.removeUnfinished())
	}
	if err != nil {
		return nil, fmt.Errorf("open a directory of chunks: %w", err)
	}
	return d, nil
}

// removeUnfinished removes what programs have left that ended while they wrote.
func (d chunkDirectory) removeUnfinished() error {
	left, err := os.ReadDir(d.unfinished)
	if err != nil {
		return err
	}
	for _, entry := range left {
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > unfinishedFor {
			err = os.Remove(filepath.Join(d.unfinished, entry.Name()))
		}
		if err := ignoreNotExist(err); err != nil { // another program may have renamed or removed it
			return err
		}
	}
	return nil
}

func (d chunkDirectory) path(a digest.SHA256) string {
	return filepath.Join(d.chunks, hex.EncodeToString(a[:]))
}

// Put writes another file, syncs it, renames it, and syncs the directory. A file that is there is replaced, which repairs it
// if it was damaged.
func (d chunkDirectory) Put(ctx context.Context, chunk []byte) (_ string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum := digest.SHA256(sha256.Sum256(chunk))
	f, err := os.CreateTemp(d.unfinished, "")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreNotExist(os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(chunk)
	if err == nil {
		err = f.Chmod(0o644) // CreateTemp keeps others from reading, who may run the jobs
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(f.Name(), d.path(sum)); err != nil {
		return "", err
	}
	return sum.String(), syncDirectory(d.chunks)
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Get opens the file of a chunk.
func (d chunkDirectory) Get(ctx context.Context, address string) (io.ReadCloser, error) {
	ref, err := digest.Parse(address)
	if err == nil && ref.SHA256 == nil {
		err = fmt.Errorf("a directory of chunks has no SHA-1 of them")
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(d.path(*ref.SHA256))
	if err != nil {
		return nil, err // and not a nil *os.File
	}
	return f, nil
}

// syncDirectory makes the names in a directory durable. Windows cannot do this for a directory.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
