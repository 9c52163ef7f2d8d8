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
	callTimeout = 60 * time.Second // of a single call of the engine's API
	// awayTimeout is how long a run waits for an unreachable engine, for example while the engine restarts.
	awayTimeout = 30 * time.Second
	lookEvery   = 500 * time.Millisecond
)

// engineAway reports whether an error means that the engine is unreachable, has exited during the call, or hangs.
func engineAway(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, errAway) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE)
}

// errRegistry reports that a registry did not answer a pull, so it is unknown whether it has the image.
var errRegistry = errors.New("the registry does not answer")

// Engines report the registry's answer only as text, so these are parts of such texts.
var (
	answered = []string{"denied", "unauthorized", "not found", "unknown", "no matching manifest", "no image found"}
	away     = []string{
		"dial tcp", "no such host", "connection refused", "connection reset", "no route to host", "network is unreachable", "name resolution", "server misbehaving",
		"timeout", "timed out", "deadline exceeded", "client.timeout", "eof", "too many requests", "toomanyrequests",
		"500 internal", "502 bad", "503 service", "504 gateway", "unexpected http status: 5", "status code 5",
	}
)

// registryAway reports whether a pull failed because the registry does not answer, or not at this time.
func registryAway(err error, name string) bool {
	if err == nil || engineAway(err) {
		return false
	}
	text := strings.ToLower(strings.ReplaceAll(err.Error(), name, ""))
	says := func(part string) bool { return strings.Contains(text, part) }
	return errors.Is(err, context.DeadlineExceeded) || slices.ContainsFunc(away, says) && !slices.ContainsFunc(answered, says)
}

// call calls the engine. The error wraps errAway if the call took longer than callTimeout while ctx had not ended.
func (e *Engine) call(ctx context.Context, f func(context.Context) error) error {
	calling, cancel := context.WithTimeout(ctx, cmp.Or(e.patience, callTimeout))
	defer cancel()
	err := f(calling)
	if err != nil && calling.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return err
}

// available waits until the engine answers. It returns an error after awayTimeout.
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
