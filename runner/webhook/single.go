package webhook

import (
	"sync"
	"sync/atomic"

	"github.com/daybookq/daybook/runner/task"
)

// runSingles sends one request per task, as many at a time as the handler allows.
func (e *Executor) runSingles(tasks []*task.Task) {
	if len(tasks) == 1 {
		e.runSingle(tasks[0])
		return
	}
	var next atomic.Int64
	var senders sync.WaitGroup
	for range min(len(tasks), cap(e.turns)) {
		senders.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(tasks); i = int(next.Add(1)) - 1 {
				e.runSingle(tasks[i])
			}
		})
	}
	senders.Wait()
}

// runSingle sends a task's request. A task whose context ends is given back, because nobody needs its answer any more.
func (e *Executor) runSingle(t *task.Task) {
	body, err := singleBody(t.Job)
	if err != nil {
		t.End(task.Failed(err.Error()))
		return
	}
	if t.Context.Err() != nil || !e.begin(t.Context) {
		t.End(task.Unget())
		return
	}
	defer e.done()
	ctx, cancel := e.limit(t.Context)
	defer cancel()
	res, err := e.post(ctx, body, singleHeader(t.Job))
	answered := err == nil
	var end task.End
	if answered {
		defer res.Body.Close()
		end, err = endOf(res, e.mostOutput)
		end.MostInline = e.mostInline
	}
	switch {
	case err == nil:
		t.End(end)
	case t.Context.Err() != nil:
		t.End(task.Unget())
	default:
		t.End(failure(ctx, err, answered))
	}
}
