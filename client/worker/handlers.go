package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/daybookq/daybook/client"
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

// handle runs the handler for one job after another, until the worker has stopped and no job waits.
func (r *running) handle() {
	finished := false
	defer func() {
		if !finished { // the handler called runtime.Goexit
			r.underWay.handlers.Go(r.handle)
		}
	}()
	for t := r.next(); t != nil; t = r.next() {
		r.do(t)
	}
	finished = true
}

// do runs the handler for one job. A panic, or the end of the goroutine, is an error of that job.
func (r *running) do(t *task) {
	r.announced(t)
	if cause := t.run.lostBy(); cause != nil { // before it began
		r.end(t, judge(cause, client.Outcome{}, cause))
		return
	}
	ctx, cancel := context.WithCancelCause(r.ctx.handlers)
	defer cancel(nil)
	t.run.onEnd(cancel)
	var o client.Outcome
	err := errGoexit
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, firstLines(string(debug.Stack()), 24))
		}
		e := judge(context.Cause(ctx), o, err)
		e.took = time.Since(began)
		r.end(t, e)
	}()
	o, err = r.Handler(ctx, t.run.Job)
}

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
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
