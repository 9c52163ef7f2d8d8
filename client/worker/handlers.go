package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// handlers run the jobs: each handler in a goroutine of its own, or all of them by Take.
type handlers struct {
	*Worker
	jobs     *jobs
	begins   *begins
	host     *host
	underWay sync.WaitGroup
}

// start starts the goroutines of the handlers, or the one that calls Take.
func (h *handlers) start() {
	if h.Take != nil {
		h.underWay.Go(h.handOver)
		return
	}
	for range h.Concurrency {
		h.underWay.Go(h.handle)
	}
}

// recordEnds records the ends of the runs that Take got, until done is closed.
func (h *handlers) recordEnds(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-h.host.ended.changed:
			h.jobs.end(h.host.ended.take())
		}
	}
}

// handle runs the handler for one job after another, until the worker has stopped and no job waits.
func (h *handlers) handle() {
	finished := false
	defer func() {
		if !finished { // the handler called runtime.Goexit
			h.underWay.Go(h.handle)
		}
	}()
	for t := h.jobs.next(); t != nil; t = h.jobs.next() {
		h.do(t)
	}
	finished = true
}

// do runs the handler for one job. A panic, or the end of the goroutine, is an error of that job.
func (h *handlers) do(t *task) {
	h.begins.wait(t)
	if cause := t.run.lostBy(); cause != nil { // before it began
		h.end(t, judge(cause, client.Outcome{}, cause))
		return
	}
	ctx, cancel := context.WithCancelCause(h.host.values)
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
		h.end(t, e)
	}()
	o, err = h.Handler(ctx, t.run.Job)
}

// end records how the run of a job ended.
func (h *handlers) end(t *task, how ending) {
	t.how = how
	h.jobs.end([]*task{t})
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

// handOver calls Take with the jobs that begin, until the worker has stopped and none runs.
func (h *handlers) handOver() {
	for tasks := h.jobs.nextSome(); tasks != nil; tasks = h.jobs.nextSome() {
		now := time.Now()
		runs := make([]*Run, 0, len(tasks))
		for _, t := range tasks {
			h.begins.wait(t)
			u := &t.run
			u.began = now
			if cause := u.lostBy(); cause != nil { // before it began
				u.End(client.Outcome{}, cause)
				continue
			}
			runs = append(runs, u)
		}
		if len(runs) > 0 && !h.callTake(runs) {
			return
		}
	}
}

// callTake calls Take. A panic of Take, or the end of its goroutine, is an error of all runs that have not ended. If
// the goroutine ends, a new one continues.
func (h *handlers) callTake(runs []*Run) (returned bool) {
	err := errGoexit
	defer func() {
		p := recover()
		if p != nil {
			returned, err = true, fmt.Errorf("panic: %v\n%s", p, firstLines(string(debug.Stack()), 24))
		}
		if err == nil {
			return
		}
		for _, u := range runs {
			u.End(client.Outcome{}, err)
		}
		if p == nil {
			h.underWay.Go(h.handOver)
		}
	}()
	h.Take(runs)
	err = nil
	return true
}
