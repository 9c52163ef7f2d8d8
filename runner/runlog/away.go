package runlog

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/daybookq/daybook/client"
)

const (
	// FirstPause is the first wait for a server that is unreachable. Each further wait is twice as long.
	FirstPause = time.Second
	maxPause   = 30 * time.Second
)

// ServerAway reports whether an error means that the server is unreachable or serves no requests now.
func ServerAway(err error) bool {
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusTooManyRequests) {
		return true
	}
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown)
}

// Patiently calls f until it succeeds, fails with an error for which ServerAway is false, or ctx ends. It returns f's
// last error. It waits pause before the second call.
func Patiently(ctx context.Context, pause time.Duration, log *slog.Logger, jobID string, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil || !ServerAway(err) || ctx.Err() != nil {
			return err
		}
		log.Warn("what a run has left cannot be stored, because the server is away; trying again", "job_id", jobID, "after", pause, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		pause = min(2*pause, maxPause)
	}
}
