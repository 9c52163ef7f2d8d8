package onlost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/daybookq/daybook/ingest/registry"
)

const (
	// maxWaiting bounds the waiting runners. Each has at most registry.MaxInfoBytes of texts.
	maxWaiting = 1_000
	// tries is the number of tries for each runner.
	tries = 3
	// tryTime bounds one try. Shutting down a machine takes a few seconds.
	tryTime = 30 * time.Second
	// firstPause is the time between the first two tries. Each further pause is five times as long.
	firstPause = time.Second
	// maxSaid bounds the part of a command's output or of an answer that the log shows.
	maxSaid = 2 << 10
)

// Hook handles lost runners. One goroutine calls Run. The other methods are safe for concurrent use.
type Hook struct {
	logger   *slog.Logger
	try      func(ctx context.Context, id string, document []byte) error
	waiting  chan registry.Runner
	failures atomic.Uint64

	tryTime, firstPause time.Duration // tests shorten them
}

// New returns a hook. A target that begins with http:// or https:// is a URL, which gets a POST request. Any other target
// is a command for sh -c. New fails if the target is invalid.
func New(target string, logger *slog.Logger) (*Hook, error) {
	h := &Hook{logger: logger, waiting: make(chan registry.Runner, maxWaiting), tryTime: tryTime, firstPause: firstPause}
	switch scheme, _, isURL := strings.Cut(target, "://"); {
	case strings.TrimSpace(target) == "":
		return nil, errors.New("it is empty; it must be a command, or the URL of an HTTP server")
	case isURL && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
		to, err := url.Parse(target)
		if err != nil {
			return nil, err
		}
		if to.Host == "" {
			return nil, fmt.Errorf("the URL %s has no host", to.Redacted())
		}
		h.try = newRequester(to).try
	default:
		h.try = command(target).try
	}
	return h, nil
}

// Lost queues a lost runner. It never blocks.
func (h *Hook) Lost(r registry.Runner) {
	select {
	case h.waiting <- r:
	default:
		h.giveUp(r.ID, fmt.Errorf("%d lost runners wait already", maxWaiting))
	}
}

// Failures returns the number of runners that were given up since the start.
func (h *Hook) Failures() uint64 { return h.failures.Load() }

// Run handles lost runners until ctx is done. It then ends the running try, and gives up the waiting runners.
func (h *Hook) Run(ctx context.Context) {
	for {
		select {
		case r := <-h.waiting:
			h.handle(ctx, r)
			continue
		case <-ctx.Done():
		}
		for {
			select {
			case r := <-h.waiting:
				h.giveUp(r.ID, errors.New("the server stops"))
				continue
			default:
			}
			return
		}
	}
}

// handle tries the hook for one runner until a try succeeds or all have failed.
func (h *Hook) handle(ctx context.Context, r registry.Runner) {
	document, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		h.giveUp(r.ID, fmt.Errorf("encode the document: %w", err))
		return
	}
	document = append(document, '\n')
	pause := h.firstPause
	for n := 1; ; n++ {
		began := time.Now()
		limited, cancel := context.WithTimeoutCause(ctx, h.tryTime, fmt.Errorf("it took longer than %v", h.tryTime))
		err := h.try(limited, r.ID, document)
		if err != nil && limited.Err() != nil {
			err = fmt.Errorf("%w (%w)", context.Cause(limited), err)
		}
		cancel()
		if err == nil {
			h.logger.Info("on-lost: done for a lost runner", "runner_id", r.ID, "took", time.Since(began))
			return
		}
		if n == tries || ctx.Err() != nil {
			h.giveUp(r.ID, err)
			return
		}
		h.logger.Warn("on-lost: failed for a lost runner; trying again", "runner_id", r.ID, "after", pause, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause *= 5
	}
}

func (h *Hook) giveUp(id string, err error) {
	h.failures.Add(1)
	h.logger.Error("on-lost: given up for a lost runner", "runner_id", id, "error", err)
}

// said keeps the last maxSaid bytes of a command's output or a server's answer, for an error.
type said struct{ text []byte }

func (s *said) Write(p []byte) (int, error) {
	s.text = append(s.text, p[max(0, len(p)-maxSaid):]...)
	s.text = append(s.text[:0], s.text[max(0, len(s.text)-maxSaid):]...)
	return len(p), nil
}

func (s *said) String() string {
	return strings.ToValidUTF8(strings.TrimSpace(string(s.text)), "\ufffd")
}
