package program

import (
	"bytes"
	"fmt"
	"io"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// runBatch runs jobs in one process, and ends each. If the process ends early or prints a line that is not an answer,
// the runner cannot know which job is to blame: the process may have read all payloads, and an earlier job may have a
// late effect. So the first job without an answer runs again, alone in a new process and in the same attempt, and that
// run counts. The jobs after it go back to the queue, which costs no attempt.
func (e *Executor) runBatch(tasks []*task.Task) {
	batch := make([]*task.Task, 0, len(tasks))
	for _, t := range tasks {
		switch {
		case t.Context.Err() != nil:
			t.End(task.Error(notAwaited(t.Context)))
		case bytes.ContainsAny(t.Job.Payload, "\r\n"):
			t.End(task.Failed("the payload has a line break, but a handler with frames = \"lines\" gets one payload a line"))
		default:
			batch = append(batch, t)
		}
	}
	if len(batch) == 0 {
		return
	}
	if alone := e.runProcess(batch); alone != nil {
		e.runBatch([]*task.Task{alone})
	}
}

// runProcess runs jobs in one process. It ends each except the one that it returns, which must run again alone.
func (e *Executor) runProcess(batch []*task.Task) (alone *task.Task) {
	ctx, cancel := task.WhileWanted(batch)
	defer cancel()
	p := &process{handler: e, stdin: payloads(batch), env: forBatch(e.env, batch), stop: make(chan struct{}), more: make(chan struct{}, 1)}
	lines := &frames{process: p, tasks: batch, reader: answers.NewReader(len(batch), e.chain, e.outputBytes)}
	p.stdout = lines
	x := p.run(ctx)
	return lines.end(x)
}

// payloads returns the process's stdin: one payload per line.
func payloads(tasks []*task.Task) io.Reader {
	readers := make([]io.Reader, 0, 2*len(tasks))
	for _, t := range tasks {
		readers = append(readers, bytes.NewReader(t.Job.Payload), bytes.NewReader([]byte("\n")))
	}
	return io.MultiReader(readers...)
}

// frames reads the answers of a process. One goroutine writes to it. end is called after the process has ended.
type frames struct {
	process *process
	tasks   []*task.Task // the first next of them have ended
	reader  *answers.Reader
	next    int // index of the task that the next answer ends

	alone *task.Task // the first task without a valid answer, if it must run alone
}

// Write implements io.Writer.
func (f *frames) Write(b []byte) (int, error) {
	before := f.reader.Answered()
	f.reader.Take(b, f.answer)
	if f.reader.Answered() > before {
		select {
		case f.process.more <- struct{}{}:
		default: // a value is already waiting
		}
	}
	if f.reader.Dropped() > mostDropped {
		close(f.process.stop)
		return 0, errTooLong
	}
	return len(b), nil
}

// mostDropped is how much longer than an answer a line may be before the runner ends the process. If the line ends
// sooner, the process continues with the next jobs.
const mostDropped = 64 << 20

// answer ends the next task.
func (f *frames) answer(a answers.Answer) {
	t := f.tasks[f.next]
	f.next++
	if t.Context.Err() != nil {
		t.End(task.Error(notAwaited(t.Context)))
		return
	}
	if a.Unclear && len(f.tasks) > 1 {
		f.unclear(t)
		return
	}
	end := a.End(f.process.handler.outputBytes)
	end.MostInline = f.process.handler.inlineBytes
	t.End(end)
}

// unclear handles a task whose result is unknown, if any job in the batch may be the cause. The first of them runs
// again alone. The rest go back to their queue.
func (f *frames) unclear(t *task.Task) {
	if f.alone == nil {
		f.alone = t
		return
	}
	t.End(task.Unget())
}

// end ends the remaining tasks after the process has ended, except the one that it returns, which must run again alone.
func (f *frames) end(x ended) (alone *task.Task) {
	e, whole := f.process.handler, x.why == byItself && x.err == nil && x.OK()
	answered := f.reader.Answered()
	if whole || x.why == stopped {
		f.reader.Finish(f.answer) // the last line needs no line break; if the process ended badly, it may be cut off
	}
	if whole || f.reader.Answered() == len(f.tasks) {
		for _, a := range f.reader.Rest() {
			f.answer(a)
		}
		return f.alone
	}
	left := f.tasks[f.next:]
	if len(left) == 0 {
		return f.alone
	}
	if x.unable {
		for _, t := range left {
			t.End(task.CannotRun(x.err.Error()))
		}
		return f.alone
	}
	if x.why == stopped && f.reader.Answered() > answered { // the endless line answered a job, which has failed
		for _, t := range left {
			t.End(task.Unget())
		}
		return f.alone
	}
	if x.why != abandoned && len(f.tasks) > 1 {
		for _, t := range left {
			f.unclear(t)
		}
		return f.alone
	}
	stderr := f.process.errors.String()
	first := left[0]
	switch {
	case x.why == abandoned:
		first.End(withStatus(task.Error(withTail(notAwaited(first.Context), stderr)), x))
	case x.why == timedOut:
		first.End(withStatus(task.Error(withTail(f.process.tooSlow("the program did not answer within"), stderr)), x))
	case x.why == stopped:
		first.End(withStatus(task.Error(withTail("the program wrote a line that answers no job and does not end, and was ended", stderr)), x))
	case x.err != nil:
		first.End(withStatus(task.Error(withTail(x.err.Error(), stderr)), x))
	default:
		text := fmt.Sprintf("the program ended before it answered: %s", e.errorText(x.Exit, ""))
		first.End(withStatus(task.Error(withTail(text, stderr)), x))
	}
	for _, t := range left[1:] {
		t.End(task.Unget())
	}
	return f.alone
}
