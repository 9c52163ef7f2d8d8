package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// failure and delay are what handlers wrap their errors in.
type (
	failure struct{ error }
	delay   struct {
		error
		after time.Duration
	}
)

func (f failure) Unwrap() error { return f.error }
func (d delay) Unwrap() error   { return d.error }

// Fail makes err final: the job ends as failed, and does not run again. Nil stays nil, so that a handler may end with
// return Outcome{}, Fail(work()).
func Fail(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// RetryAfter has the job run again after d instead of its backoff, unless its attempts are used up. A negative d counts as 0. Nil stays nil,
// as with Fail; to run again without an error return an Outcome with code retry.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return delay{err, max(d, 0)}
}

// verdict is what is to be reported of a run: an outcome, its giving back, or nothing because of err.
type verdict struct {
	outcome Outcome
	unget   bool
	err     error
}

func unget() verdict { return verdict{unget: true} }

// judge turns what a handler returned into what is reported.
func (r *running) judge(t *task, o Outcome, err error) verdict {
	if cause := context.Cause(t.ctx); errors.Is(cause, ErrLeaseLost) {
		return verdict{err: cause}
	} else if err != nil && errors.Is(cause, ErrDraining) {
		return unget()
	}
	var final failure
	var later delay
	switch {
	case err == nil:
	case errors.As(err, &final):
		o.Code, o.Error = "failed", text(err)
	case errors.As(err, &later):
		ms := later.after.Milliseconds()
		o.Code, o.Error, o.DelayMs = "retry", text(err), &ms
	default:
		o.Code, o.Error = "error", text(err)
	}
	return verdict{outcome: o}
}

// text is an error's text within the server's limit, and without what is not UTF-8. An error may panic when it is read, as a typed nil
// does: that harms its own job alone.
func text(err error) (s string) {
	const limit = 64 << 10
	defer func() {
		if p := recover(); p != nil {
			s = strings.ToValidUTF8(fmt.Sprintf("panic in the Error of a %T: %.1000v", err, p), "\uFFFD")
		}
	}()
	s = strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}
