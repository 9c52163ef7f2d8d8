package blob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// reopenAfter is the longest rest between two tries to open a place that does not answer. The first rests are shorter.
const reopenAfter = 5 * time.Second

// Later is the Stores of a place that may not answer when a server starts. Until it does, there are no stores, and all
// requests for them return ErrUnavailable.
type Later struct {
	open  func(context.Context) (*Clients, error)
	log   *slog.Logger
	stop  context.CancelFunc
	first chan error // of the first try
	ended chan struct{}

	mu     sync.Mutex // guards the fields below
	stores *Clients
	failed error
}

var _ Stores = (*Later)(nil)

// OpenLater calls open in the background until it succeeds. It waits up to wait, or until ctx ends, for the first try.
// If that try returns any error other than ErrUnavailable, or ErrRefused, OpenLater closes everything and returns the
// error. Otherwise it returns a Later that continues to try, even if a later try returns such errors.
func OpenLater(ctx context.Context, open func(context.Context) (*Clients, error), wait time.Duration, log *slog.Logger) (*Later, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	l := &Later{open: open, log: log, stop: stop, first: make(chan error, 1), ended: make(chan struct{}), failed: errors.New("they are being counted")}
	go l.run(running)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-l.first:
		if err != nil && (!errors.Is(err, ErrUnavailable) || errors.Is(err, ErrRefused)) {
			return nil, errors.Join(err, l.Close())
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	if _, err := l.now(); err != nil {
		log.Warn("the blobs are not available yet; the server goes on, and tries to open them again and again", "error", err)
	}
	return l, nil
}

// run opens the stores.
func (l *Later) run(ctx context.Context) {
	defer close(l.ended)
	for try := 0; ctx.Err() == nil; try++ {
		stores, err := l.open(ctx)
		l.mu.Lock()
		l.stores, l.failed = stores, err
		l.mu.Unlock()
		if try == 0 {
			l.first <- err
		}
		if err == nil {
			l.log.Info("the blobs are open", "bytes", stores.Used())
			return
		}
		rest := min(250*time.Millisecond<<min(try, 10), reopenAfter)
		if try > 0 && ctx.Err() == nil {
			l.log.Warn("the blobs are not available", "error", err, "next_try_after", rest.String())
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
}

// now returns the stores, or ErrUnavailable.
func (l *Later) now() (*Clients, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stores == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, l.failed)
	}
	return l.stores, nil
}

// Store returns the blobs of a client, as Clients does.
func (l *Later) Store(client string) (Store, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.Store(client)
}

// Names returns the clients that have blobs, as Clients does.
func (l *Later) Names() ([]string, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.Names()
}

// All returns all stores.
func (l *Later) All() ([]Store, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.All()
}

// Used returns the bytes of all blobs and uploads, or 0 before they are open.
func (l *Later) Used() int64 {
	c, err := l.now()
	if err != nil {
		return 0
	}
	return c.Used()
}

// Close ends the tries, and closes the stores. No other method may be running, or be called later.
func (l *Later) Close() error {
	l.stop()
	<-l.ended
	if c, err := l.now(); err == nil {
		return c.Close()
	}
	return nil
}
