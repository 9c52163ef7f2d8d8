package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job"
)

// ending is how the run of a job ended: with an outcome to report; with giveBack, which returns the job to its queue as
// if it had never been claimed; or with err, which means that nothing is reported.
type ending struct {
	outcome  client.Outcome
	giveBack bool
	asked    bool // the handler has requested giveBack by ErrUnget
	err      error
	took     time.Duration // how long the handler took
}

// judge returns the ending of a run whose handler returned o and err. cause is the reason why its context has ended, or
// nil.
//
// If only the worker's clock ended the run, the claim may still hold the job, since a server that was down gives every
// lease its full length again. Finished work is then reported. If the server has said that the claim lost the job, the
// job may still wait for its next run. A final outcome then ends it and saves that run; an error or a retry would only
// delay it. The report names the claim, so the server refuses it if another runner has the job. A cancelled job has
// ended.
func judge(cause error, o client.Outcome, err error) ending {
	switch {
	case errors.Is(cause, errByClock) && err == nil:
	case errors.Is(cause, ErrLeaseLost) && !errors.Is(cause, client.ErrCancelled) && err == nil && final(&o):
	case errors.Is(cause, ErrLeaseLost):
		return ending{err: cause}
	case err == ErrUnget: // the Is method of a typed nil may panic
		return ending{giveBack: true, asked: true}
	case errors.Is(cause, ErrDraining) && err != nil:
		return ending{giveBack: true}
	}
	return ending{outcome: outcomeOf(o, err)}
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
