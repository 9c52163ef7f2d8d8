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
	// FirstPause is how long the first wait for a server that is away takes. Each one takes twice as long as the one before.
	FirstPause = time.Second
	maxPause   = 30 * time.Second
)

// ServerAway reports whether an error says that the server cannot be reached, or serves no requests now.
func ServerAway(err error) bool {
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusTooManyRequests) {
		return true
	}
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrUnknown)
}

// Patiently calls f again while its error says that the server is away, until ctx ends. It waits pause before the second
// call.
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
