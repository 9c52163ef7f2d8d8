package program

import (
	"bytes"
	"fmt"
	"io"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// runBatch runs jobs in one process, and ends each of them. If the process ends or says something that is no answer, it is
// not known which job is the reason: the process may have read the payloads of all of them, and what it did for earlier jobs
// may have its effect now. So the first job without an answer runs again, alone in a new process and in the same attempt, and
// that run counts. The others go back to the queue without costing an attempt.
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

// runProcess runs jobs in one process, and ends each of them but the one that it returns, which must run alone.
func (e *Executor) runProcess(batch []*task.Task) (alone *task.Task) {
	ctx, cancel := task.WhileWanted(batch)
	defer cancel()
	p := &process{handler: e, stdin: payloads(batch), env: forBatch(e.env, batch), stop: make(chan struct{}), more: make(chan struct{}, 1)}
	lines := &frames{process: p, tasks: batch, reader: answers.NewReader(len(batch), e.chain, e.outputBytes)}
	p.stdout = lines
	x := p.run(ctx)
	return lines.end(x)
}

// payloads returns the lines that the process reads.
func payloads(tasks []*task.Task) io.Reader {
	readers := make([]io.Reader, 0, 2*len(tasks))
	for _, t := range tasks {
		readers = append(readers, bytes.NewReader(t.Job.Payload), bytes.NewReader([]byte("\n")))
	}
	return io.MultiReader(readers...)
}

// frames reads the answers of a process. It is written by one goroutine, and ended after the process.
type frames struct {
	process *process
	tasks   []*task.Task // of which the first answered ones have ended
	reader  *answers.Reader
	next    int // the task that the next answer ends

	alone *task.Task // the first one without a valid answer, if it must run alone
}

// Write implements io.Writer.
func (f *frames) Write(b []byte) (int, error) {
	before := f.reader.Answered()
	f.reader.Take(b, f.answer)
	if f.reader.Answered() > before {
		select {
		case f.process.more <- struct{}{}:
		default: // one is waiting already
		}
	}
	if f.reader.Dropped() > mostDropped {
		close(f.process.stop)
		return 0, errTooLong
	}
	return len(b), nil
}

// mostDropped is how much longer a line may be than an answer before the process is ended. The process of a shorter one goes
// on with the other jobs.
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

// unclear is called for each task of which it is not known how its run ended, nor which task is the reason.
func (f *frames) unclear(t *task.Task) {
	if f.alone == nil {
		f.alone = t
		return
	}
	t.End(task.Unget())
}

// end ends the tasks that are left after the process has ended, but the one that it returns, which must run alone.
func (f *frames) end(x ended) (alone *task.Task) {
	e, whole := f.process.handler, x.why == byItself && x.err == nil && x.OK()
	answered := f.reader.Answered()
	if whole || x.why == stopped {
		f.reader.Finish(f.answer) // the last line needs no line break; of another process it may be cut off
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
	if x.why == stopped && f.reader.Answered() > answered { // the line without an end was the answer of a job, which has failed
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
