package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/daybookq/daybook/blob"
)

// reopenAfter is the longest rest between two tries to open blobs. The first rests are shorter.
const reopenAfter = 5 * time.Second

// lateBlobs are blobs that may not be open when the server starts: their bucket does not answer, or their directory has
// very many files. Until they are open, there is no store.
type lateBlobs struct {
	requests func() map[string]blob.RequestStats // nil: there is no bucket
	stop     context.CancelFunc
	ended    chan struct{} // closed when no further try is made

	mu    sync.Mutex // guards the fields below
	store *blob.Store
	err   error // of the last try
}

// openLate calls open in the background until it succeeds. It waits up to wait, or until ctx ends, for the first try.
// If that try returns any error other than blob.ErrUnavailable, or blob.ErrRefused, openLate returns the error.
// Otherwise it continues to try, even if a later try returns such errors.
func openLate(ctx context.Context, open func(context.Context) (*blob.Store, error), wait time.Duration, log *slog.Logger) (*lateBlobs, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &lateBlobs{stop: stop, ended: make(chan struct{}), err: errors.New("they are being counted")}
	first := make(chan error, 1)
	go func() {
		defer close(b.ended)
		b.run(running, open, first, log)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-first:
		if err != nil && (!errors.Is(err, blob.ErrUnavailable) || errors.Is(err, blob.ErrRefused)) {
			return nil, errors.Join(err, b.Close())
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	if _, err := b.Store(); err != nil {
		log.Warn("the blobs are not available yet; the server goes on, and tries to open them again and again", "error", err)
	}
	return b, nil
}

// run opens the store. It sends the result of the first try to first.
func (b *lateBlobs) run(ctx context.Context, open func(context.Context) (*blob.Store, error), first chan<- error, log *slog.Logger) {
	for try := 0; ctx.Err() == nil; try++ {
		store, err := open(ctx)
		b.mu.Lock()
		b.store, b.err = store, err
		b.mu.Unlock()
		if try == 0 {
			first <- err
		}
		if err == nil {
			log.Info("the blobs are open", "bytes", store.Used())
			return
		}
		rest := min(250*time.Millisecond<<min(try, 10), reopenAfter)
		if try > 0 && ctx.Err() == nil {
			log.Warn("the blobs are not available", "error", err, "next_try_after", rest.String())
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
}

// Store returns the store, or blob.ErrUnavailable.
func (b *lateBlobs) Store() (*blob.Store, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store == nil {
		return nil, fmt.Errorf("%w: %w", blob.ErrUnavailable, b.err)
	}
	return b.store, nil
}

// Close ends the tries, and closes the store. Nobody may use the store, or do so later.
func (b *lateBlobs) Close() error {
	b.stop()
	<-b.ended
	if b.store == nil {
		return nil
	}
	return b.store.Close()
}
