package directory

import (
	"context"
	"io"

	"github.com/daybookq/daybook/client/fileset"
)

// defaultParallel is how many files are transferred at once. Small files mostly wait for the server.
const defaultParallel = 8

// Options are those of Pull, Scan and Push.
type Options struct {
	// Parallel is how many files are read, sent or fetched at once. 0 means 8.
	Parallel int
}

func (o Options) parallel() int {
	if o.Parallel <= 0 {
		return defaultParallel
	}
	return o.Parallel
}

// Source is where Pull gets blobs. Several goroutines call it at once.
type Source interface {
	// CopyBlob writes the content of a blob to w. What it has written may be wrong if it returns an error.
	CopyBlob(ctx context.Context, a fileset.Address, w io.Writer) error
}

// Target is where Push stores blobs. Several goroutines call PutBlob at once.
type Target interface {
	// Missing returns which of the blobs are not stored. Others stay stored for some time, see package blob.
	Missing(ctx context.Context, all []fileset.Address) ([]fileset.Address, error)
	// StoreBlob stores a blob. It refuses content with another address.
	StoreBlob(ctx context.Context, a fileset.Address, size int64, r io.ReadSeeker) error
}

// Moved says what Pull or Push has transferred.
type Moved struct {
	Files, Skipped int // files that were transferred, and that were there already
	Bytes          int64
}

// each calls work for the numbers below n, in several goroutines. It returns the first error, after which it begins no
// further call.
func each(ctx context.Context, parallel, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	done := make(chan struct{})
	workers := min(parallel, n)
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				if err := work(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		}()
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	for range workers {
		<-done
	}
	return context.Cause(ctx)
}
