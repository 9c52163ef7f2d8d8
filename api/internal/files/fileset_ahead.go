package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/client/fileset"
)

const (
	// aheadFiles is the number of small files that the server reads ahead for an archive, if their blobs are in a
	// bucket: there each file takes two requests. Each occupies one descriptor during this time.
	aheadFiles = 16
	// aheadFileBytes is the size of a small file. A longer file is read in its turn, because its requests are a small
	// part of its time.
	aheadFileBytes = 128 << 10
	// aheadBytes is the memory for these files: each is in memory twice while its blob is open.
	aheadBytes = 2 * aheadFiles * aheadFileBytes
)

// blobGetter opens a blob, as Store.Get does.
type blobGetter func(context.Context, blob.Address) (*blob.Blob, error)

// filesAhead reads the small files of a manifest before it is their turn. One goroutine calls its methods.
type filesAhead struct {
	ctx    context.Context
	cancel context.CancelFunc
	get    blobGetter
	files  []fileset.File

	turn    int // the next file to copy
	begun   int // the number of files that were begun, or skipped as too long
	reading [aheadFiles]chan []byte
	running sync.WaitGroup
}

func newFilesAhead(ctx context.Context, get blobGetter, m *fileset.Manifest) *filesAhead {
	ctx, cancel := context.WithCancel(ctx)
	return &filesAhead{ctx: ctx, cancel: cancel, get: get, files: m.Files}
}

// copy writes the next file. If reading ahead failed, copy reads the file again and returns that second error.
func (a *filesAhead) copy(w io.Writer) error {
	for ; a.begun < min(len(a.files), a.turn+aheadFiles); a.begun++ {
		a.begin(a.begun)
	}
	f, content := &a.files[a.turn], a.reading[a.turn%aheadFiles]
	a.turn++
	if content != nil {
		if read := <-content; read != nil {
			_, err := w.Write(read)
			return err
		}
	}
	return copyBlob(a.ctx, a.get, w, f)
}

// begin reads a file, unless it is too long.
func (a *filesAhead) begin(i int) {
	f := &a.files[i]
	if f.Size > aheadFileBytes {
		a.reading[i%aheadFiles] = nil
		return
	}
	to := make(chan []byte, 1)
	a.reading[i%aheadFiles] = to
	a.running.Go(func() {
		content := bytes.NewBuffer(make([]byte, 0, f.Size))
		if copyBlob(a.ctx, a.get, content, f) != nil {
			content = &bytes.Buffer{} // its Bytes are nil
		}
		to <- content.Bytes()
	})
}

// end waits until no read is in progress.
func (a *filesAhead) end() {
	a.cancel()
	a.running.Wait()
}

// copyBlob writes the content of a file.
func copyBlob(ctx context.Context, get blobGetter, w io.Writer, f *fileset.File) (err error) {
	b, err := get(ctx, blob.Address(f.Blob))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if size := b.Info().Size; size != f.Size {
		return fmt.Errorf("blob %s has %d bytes instead of %d", f.Blob, size, f.Size)
	}
	_, err = b.WriteTo(w)
	return err
}
