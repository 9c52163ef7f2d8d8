package directory

import (
	"context"
	"io"

	"github.com/daybookq/daybook/client/fileset"
)

// defaultParallel is the default of Options.Parallel. Small files mostly wait for the server.
const defaultParallel = 8

// Options are the options of Pull, Scan and Push.
type Options struct {
	// Parallel is the number of files that are read, sent or fetched in parallel. 0 means 8.
	Parallel int
}

func (o Options) parallel() int {
	if o.Parallel <= 0 {
		return defaultParallel
	}
	return o.Parallel
}

// Source is the store from which Pull gets blobs. It is called concurrently.
type Source interface {
	// CopyBlob writes the content of a blob to w. If it returns an error, the written content may be wrong.
	CopyBlob(ctx context.Context, a fileset.Address, w io.Writer) error
}

// Target is the store to which Push sends blobs. StoreBlob is called concurrently.
type Target interface {
	// Missing returns the blobs that are not stored. The remaining blobs stay stored for some time; see package blob.
	Missing(ctx context.Context, all []fileset.Address) ([]fileset.Address, error)
	// StoreBlob stores a blob. It refuses content with another address.
	StoreBlob(ctx context.Context, a fileset.Address, size int64, r io.ReadSeeker) error
}

// Moved counts the files that Pull or Push has transferred.
type Moved struct {
	Files, Skipped int // files that were transferred, and files that were already there
	Bytes          int64
}

// each calls work for the numbers below n in several goroutines. After the first error it starts no further call, and
// returns that error.
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
