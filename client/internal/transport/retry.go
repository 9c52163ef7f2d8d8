package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client/internal/backoff"
	"github.com/daybookq/daybook/client/problem"
)

// Do sends a request, and sends it again while that is safe and may succeed.
func (c *Conn) Do(ctx context.Context, r Request) (a Answer, err error) {
	err = c.Retry(ctx, r.Path, r.Repeat, func() error {
		a, err = c.Once(ctx, r)
		return err
	})
	return a, err
}

// Retry calls once, which sends a request, and calls it again while that is safe and may succeed.
func (c *Conn) Retry(ctx context.Context, path string, repeat Repeating, once func() error) error {
	rules := RetryRules{Repeat: repeat, Persistent: c.Persistent}
	give := time.Now().Add(c.RetryFor)
	lost := false // the answer of the previous try was lost: something may be stored
	for attempt := 0; ; attempt++ {
		url := c.Servers.URL()
		err := once()
		if err == nil {
			return nil
		}
		if lost {
			err = afterLost(err)
		}
		lost = errors.Is(err, problem.ErrUnknown)
		if ctx.Err() != nil {
			return err
		}
		if c.Persistent && down(err) || verifying(err) {
			give = time.Now().Add(c.RetryFor)
		}
		wait, again := rules.Wait(err, attempt)
		if attempt < c.Servers.Len()-1 && c.Servers.URL() != url {
			wait = nextNode // another node may answer at once
		}
		if !again || time.Now().Add(wait).After(give) {
			return err
		}
		c.Logger.DebugContext(ctx, "repeating a request", "path", path, "attempt", attempt+1, "after", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}

// nextNode is the time before a request is sent to the next node of a cluster.
const nextNode = 10 * time.Millisecond

// RetryRules decide after which errors a request is sent again.
type RetryRules struct {
	Repeat     Repeating
	Persistent bool // after failures of the server, too
}

// Wait reports whether a request that failed with err may be sent again, and after how long. attempt counts from 0.
func (p RetryRules) Wait(err error, attempt int) (wait time.Duration, again bool) {
	var refused *problem.Error
	var strange *strangeStatus
	var asked time.Duration
	switch {
	case errors.As(err, &refused) && refused.WrongKey(): // it would be refused again, also after the wait
	case errors.As(err, &refused):
		again = p.passing(refused.Status) && (p.Repeat == Repeatable || refused.Outcome == "not_stored")
		asked = refused.RetryAfter
	case errors.As(err, &strange):
		again = p.passing(strange.status) && p.Repeat == Repeatable
		asked = strange.retryAfter
	case errors.Is(err, problem.ErrUnavailable):
		again = p.Persistent || !unverified(err)
	case errors.Is(err, problem.ErrUnknown):
		again = p.Repeat == Repeatable && !errors.Is(err, problem.ErrUnexpectedAnswer)
	}
	return max(backoff.Wait(attempt), asked), again
}

// lostError is the error of a request that was repeated after its answer was lost. err is the last try's error. It does
// not say whether the first try was stored.
type lostError struct{ err error }

func (l *lostError) Error() string {
	return fmt.Sprintf("an answer was lost, and the last try failed: %v", l.err)
}
func (l *lostError) As(target any) bool { return errors.As(l.err, target) }
func (l *lostError) Is(target error) bool {
	return target == problem.ErrUnknown || target != problem.ErrUnavailable && errors.Is(l.err, target)
}

// afterLost returns the error of a request whose answer was lost and whose repeat failed with err. If err says that
// nothing was stored, this is true only of the repeat.
func afterLost(err error) error {
	var refused *problem.Error
	if errors.Is(err, problem.ErrUnavailable) || errors.Is(err, problem.ErrSessionNotFound) ||
		errors.As(err, &refused) && refused.Outcome == "not_stored" && (RetryRules{Repeatable, true}).passing(refused.Status) {
		return &lostError{err}
	}
	return err
}

// passing reports whether a failure with this status may soon pass.
func (p RetryRules) passing(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
		return p.Repeat == Repeatable
	case http.StatusInternalServerError, http.StatusInsufficientStorage:
		return p.Persistent
	}
	return false
}

// down reports whether err says that no server listens, or that the server is starting.
func down(err error) bool {
	var refused *problem.Error
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &refused) && refused.Code == "not_ready"
}

// verifying reports whether err says that the server verifies a long blob. The next answer is the blob, or that it is
// damaged.
func verifying(err error) bool {
	var refused *problem.Error
	return errors.As(err, &refused) && refused.Code == "blob_verifying"
}
