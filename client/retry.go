package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"
)

const (
	firstWait = 20 * time.Millisecond
	maxWait   = 2 * time.Second
)

// retryWait says whether a request that ended with err may be made again, and after how long. attempt counts from 0.
// With stubborn it is repeated after failures of the server, too.
func retryWait(err error, repeatable, stubborn bool, attempt int) (wait time.Duration, again bool) {
	var refused *Error
	var strange *strangeStatus
	var asked time.Duration
	switch {
	case errors.As(err, &refused):
		again = passing(refused.Status, repeatable, stubborn) && (repeatable || refused.Outcome == "not_stored")
		asked = refused.RetryAfter
	case errors.As(err, &strange):
		again = passing(strange.status, repeatable, stubborn) && repeatable
		asked = strange.retryAfter
	case errors.Is(err, ErrUnavailable):
		again = true
	case errors.Is(err, ErrUnknown):
		again = repeatable && !errors.Is(err, ErrUnexpectedAnswer)
	}
	return max(backoff(attempt), asked), again
}

// lostError is the error of a request that was repeated since an answer was lost. The last try met err, which speaks of
// that try alone: what became of the first is unknown whatever it says.
type lostError struct{ err error }

func (l *lostError) Error() string      { return fmt.Sprintf("an answer was lost, and then: %v", l.err) }
func (l *lostError) As(target any) bool { return errors.As(l.err, target) }
func (l *lostError) Is(target error) bool {
	return target == ErrUnknown || target != ErrUnavailable && errors.Is(l.err, target)
}

// afterLost returns what err, of a repeat, says of the request as a whole: that nothing was stored is true of the
// repeat alone.
func afterLost(err error) error {
	var refused *Error
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSessionNotFound) ||
		errors.As(err, &refused) && refused.Outcome == "not_stored" && passing(refused.Status, true, true) {
		return &lostError{err}
	}
	return err
}

// passing reports whether a status is of something that may be over soon.
func passing(status int, repeatable, stubborn bool) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
		return repeatable
	case http.StatusInternalServerError, http.StatusInsufficientStorage:
		return stubborn
	}
	return false
}

// down reports whether err says that nobody listens, or that the server starts.
func down(err error) bool {
	var refused *Error
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &refused) && refused.Code == "not_ready"
}

// backoff doubles from firstWait to maxWait, and takes between half and all of it, so that a fleet does not come back
// in step.
func backoff(attempt int) time.Duration {
	wait := min(firstWait<<min(attempt, 16), maxWait)
	return wait/2 + rand.N(wait/2+1)
}
