package client

import (
	"errors"
	"math/rand/v2"
	"time"
)

// retryWait says whether a request that ended with err may be made again, and after how long. attempt counts from 0.
func retryWait(err error, repeatable bool, attempt int) (wait time.Duration, again bool) {
	var refused *Error
	switch {
	case errors.As(err, &refused):
		again = refused.Status == 429 || refused.Status == 503
		if refused.Outcome != "not_stored" && !repeatable {
			again = false
		}
	case errors.Is(err, ErrUnavailable):
		again = true
	case errors.Is(err, ErrUnknown):
		again = repeatable
	}
	if !again {
		return 0, false
	}
	wait = backoff(attempt)
	if refused != nil && refused.RetryAfter > wait {
		wait = refused.RetryAfter
	}
	return wait, true
}

// backoff doubles from firstWait to maxWait, and takes between half and all of it, so that a fleet does not come back in step.
func backoff(attempt int) time.Duration {
	wait := min(firstWait<<min(attempt, 16), maxWait)
	return wait/2 + rand.N(wait/2+1)
}
