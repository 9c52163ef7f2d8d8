package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// failure and delay are the errors that Fail and RetryAfter return.
type (
	failure struct{ error }
	delay   struct {
		error
		after time.Duration
	}
)

func (f failure) Unwrap() error { return f.error }
func (d delay) Unwrap() error   { return d.error }

// Fail makes err final: the job ends as failed and does not run again. Fail(nil) is nil, so that a handler may end with
// return Outcome{}, Fail(work()).
func Fail(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// RetryAfter makes the job run again after d instead of after its backoff, unless all its attempts are used. A negative
// d counts as 0. RetryAfter(d, nil) is nil. To run a job again without an error, return an Outcome with code retry.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return delay{err, max(d, 0)}
}

// outcomeOf returns the outcome that reports the result of a handler. A job that runs again creates no jobs.
func outcomeOf(o client.Outcome, err error) client.Outcome {
	var final failure
	var later delay
	switch {
	case err == nil:
	case errors.As(err, &final):
		o.Code, o.Error = "failed", errorText(err)
	case errors.As(err, &later):
		ms := later.after.Milliseconds()
		o.Code, o.Error, o.DelayMs, o.Then = "retry", errorText(err), &ms, nil
	default:
		o.Code, o.Error, o.Then = "error", errorText(err), nil
	}
	return o
}

// errorText returns the text of an error as valid UTF-8 within the server's limit. The Error method of a typed nil may
// panic. The panic must affect only the job of that error.
func errorText(err error) (s string) {
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

// final reports whether o is ok or failed.
func final(o *client.Outcome) bool {
	class := job.ExitCodeClass(o.ExitCode)
	return o.Code == "ok" || o.Code == "failed" || o.Code == "" && (o.ExitCode == 0 || class == job.OK || class == job.Fail)
}

// plain reports whether o is ok and has nothing else to report.
func plain(o *client.Outcome) bool {
	return (o.Code == "" || o.Code == "ok") && (o.ExitCode == 0 || o.ExitCode == job.OK.DefaultExitCode()) && o.ProcessExit == nil && o.OutputAddr == "" && o.OutputAddrKind == client.None && o.LogAddr == "" && o.OutputKind == client.None && len(o.Output) == 0 &&
		o.Error == "" && o.DelayMs == nil && len(o.Then) == 0
}
