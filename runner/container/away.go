package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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

// errRegistry is the error of a pull whose registry does not answer, so that it is not known whether it has the image.
var errRegistry = errors.New("the registry does not answer")

// Engines report what a registry answered as a text only.
var (
	answered = []string{"denied", "unauthorized", "not found", "unknown", "no matching manifest", "no image found"}
	away     = []string{
		"dial tcp", "no such host", "connection refused", "connection reset", "no route to host", "network is unreachable", "name resolution", "server misbehaving",
		"timeout", "timed out", "deadline exceeded", "client.timeout", "eof", "too many requests", "toomanyrequests",
		"500 internal", "502 bad", "503 service", "504 gateway", "unexpected http status: 5", "status code 5",
	}
)

// registryAway reports whether the error of a pull says that the registry of an image does not answer, or not now.
func registryAway(err error, name string) bool {
	if err == nil || engineAway(err) {
		return false
	}
	text := strings.ToLower(strings.ReplaceAll(err.Error(), name, ""))
	says := func(part string) bool { return strings.Contains(text, part) }
	return errors.Is(err, context.DeadlineExceeded) || slices.ContainsFunc(away, says) && !slices.ContainsFunc(answered, says)
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
