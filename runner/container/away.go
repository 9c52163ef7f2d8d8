package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

var errAway = errors.New("the container engine does not answer")

const (
	callTimeout = 60 * time.Second // of a call that does no more than one thing
	// awayTimeout is how long a run waits for an engine that does not answer, for example while it is restarted.
	awayTimeout = 30 * time.Second
	lookEvery   = 500 * time.Millisecond
)

// engineAway reports whether an error says that the engine cannot be reached, has ended while it was asked, or hangs.
func engineAway(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, errAway) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// call calls the engine, for callTimeout at most. If that is over and ctx is not, the error wraps errAway.
func (e *Engine) call(ctx context.Context, f func(context.Context) error) error {
	calling, cancel := context.WithTimeout(ctx, cmp.Or(e.patience, callTimeout))
	defer cancel()
	err := f(calling)
	if err != nil && calling.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// available waits until the engine answers, for awayTimeout at most.
func (e *Engine) available(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, awayTimeout)
	defer cancel()
	for {
		_, err := e.docker.Ping(ctx, client.PingOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errAway, err)
		case <-time.After(lookEvery):
		}
	}
}
