package webhook

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// runBatch sends one request for all tasks whose payloads are single lines.
func (e *Executor) runBatch(tasks []*task.Task) {
	var body []byte
	sent := make([]*task.Task, 0, len(tasks))
	for _, t := range tasks {
		var err error
		if t.Context.Err() != nil {
			t.End(task.Unget())
		} else if body, err = appendLine(body, t.Job); err != nil {
			t.End(task.Failed(err.Error()))
		} else {
			sent = append(sent, t)
		}
	}
	if len(sent) == 0 {
		return
	}
	wanted, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := newWaiting(sent, cancel)
	defer w.wait()
	if !e.begin(wanted) {
		return // w has ended all tasks
	}
	defer e.done()
	ctx, cancel := e.limit(wanted)
	defer cancel()
	res, err := e.post(ctx, body, batchHeader(sent))
	if err != nil {
		w.endRest(failure(ctx, err, false))
		return
	}
	defer res.Body.Close()
	e.readAnswers(ctx, res, w)
}

// readAnswers ends each task as soon as its line has arrived, and the last task at the end of the body. As with miniq,
// lines count whatever the status is. The status is part of the error of a task without a valid line.
func (e *Executor) readAnswers(ctx context.Context, res *http.Response, w *waiting) {
	after := retryAfter(res.Header, time.Now())
	end := func(a answers.Answer) {
		if a.Code != "" && res.StatusCode/100 != 2 {
			a.Text = statusText(res.StatusCode) + ": " + a.Text
		}
		end := a.End(e.mostOutput)
		end.MostInline = e.mostInline
		delay(&end, after)
		w.endNext(end)
	}
	lines := answers.NewReader(len(w.tasks), e.chain, e.mostOutput)
	if err := lines.Read(http.MaxBytesReader(nil, res.Body, e.mostBeside+int64(len(w.tasks))*e.mostOutput), end); err != nil {
		answered := lines.Answered()
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong && lines.Dropped() > 0 {
			lines.Finish(end) // an endless answer fails only its own job
		}
		if lines.Answered() == answered {
			w.endRest(failure(ctx, err, true))
			return
		}
		if lines.Answered() < len(w.tasks) {
			w.endRest(task.Unget())
			return
		}
	}
	for _, a := range lines.Rest() {
		end(a)
	}
}

// waiting has the tasks that wait for the answer to one request. A task whose context ends is given back and no longer
// waits. When no task waits, the request is cancelled.
type waiting struct {
	tasks  []*task.Task
	next   int           // index of the next task to be answered
	stops  []func() bool // per task: stops watching its context; false if the context has ended
	left   atomic.Int64  // tasks that wait
	cancel context.CancelFunc
	ended  sync.WaitGroup // one per task that has not ended
}

func newWaiting(tasks []*task.Task, cancel context.CancelFunc) *waiting {
	w := &waiting{tasks: tasks, stops: make([]func() bool, len(tasks)), cancel: cancel}
	w.left.Store(int64(len(tasks)))
	w.ended.Add(len(tasks))
	for i, t := range tasks {
		w.stops[i] = t.AfterFunc(func() {
			defer w.ended.Done()
			t.End(task.Unget())
			w.leave()
		})
	}
	return w
}

func (w *waiting) leave() {
	if w.left.Add(-1) == 0 {
		w.cancel()
	}
}

// endNext ends the next task.
func (w *waiting) endNext(end task.End) {
	i := w.next
	w.next++
	if w.stops[i]() {
		defer w.ended.Done()
		w.tasks[i].End(end)
		w.leave()
	}
}

// endRest ends all tasks without an answer.
func (w *waiting) endRest(end task.End) {
	for w.next < len(w.tasks) {
		w.endNext(end)
	}
}

// wait returns when all tasks have ended.
func (w *waiting) wait() { w.ended.Wait() }
