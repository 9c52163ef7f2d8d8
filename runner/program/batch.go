package program

import (
	"bytes"
	"fmt"
	"io"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// runBatch runs jobs in one process, and ends each of them.
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
	ctx, cancel := task.WhileWanted(batch)
	defer cancel()
	p := &process{handler: e, stdin: payloads(batch), env: forBatch(e.env, batch), stop: make(chan struct{}), more: make(chan struct{}, 1)}
	lines := &frames{process: p, tasks: batch, reader: answers.NewReader(len(batch), e.chain)}
	p.stdout = lines
	x := p.run(ctx)
	lines.end(x)
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

	part []byte // of a line whose end has not arrived
}

// Write implements io.Writer.
func (f *frames) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, complete := bytes.Cut(b, []byte("\n"))
		// The reader refuses a line of one byte more than it may have.
		f.part = append(f.part, line[:min(len(line), answers.MaxLineBytes+1-len(f.part))]...)
		if !complete {
			return n, nil
		}
		f.line()
		b = rest
	}
}

// line takes the line that is complete.
func (f *frames) line() {
	before := f.reader.Answered()
	if a, ok := f.reader.Line(f.part); ok {
		f.answer(a)
	}
	f.part = f.part[:0]
	if f.reader.Answered() > before {
		select {
		case f.process.more <- struct{}{}:
		default: // one is waiting already
		}
	}
}

// answer ends the next task.
func (f *frames) answer(a answers.Answer) {
	t := f.tasks[f.next]
	f.next++
	if t.Context.Err() != nil {
		t.End(task.Error(notAwaited(t.Context)))
		return
	}
	end := a.End(f.process.handler.outputBytes)
	end.MostInline = f.process.handler.inlineBytes
	t.End(end)
}

// end ends the tasks that are left after the process has ended.
func (f *frames) end(x ended) {
	e, whole := f.process.handler, x.why == byItself && x.err == nil && x.OK()
	if whole && len(f.part) > 0 {
		f.line() // the last line needs no line break; of another process it may be cut off
	}
	if whole || f.reader.Answered() == len(f.tasks) {
		for _, a := range f.reader.Rest() {
			f.answer(a)
		}
		return
	}
	if f.next == len(f.tasks) {
		return
	}
	if x.unable {
		for _, t := range f.tasks[f.next:] {
			t.End(task.CannotRun(x.err.Error()))
		}
		return
	}
	stderr := f.process.errors.String()
	first := f.tasks[f.next]
	switch {
	case x.why == abandoned:
		first.End(withStatus(task.Error(withTail(notAwaited(first.Context), stderr)), x))
	case x.why == timedOut:
		first.End(withStatus(task.Error(withTail(f.process.tooSlow("the program did not answer within"), stderr)), x))
	case x.err != nil:
		first.End(withStatus(task.Error(withTail(x.err.Error(), stderr)), x))
	default:
		text := fmt.Sprintf("the program ended before it answered: %s", e.errorText(x.Exit, ""))
		first.End(withStatus(task.Error(withTail(text, stderr)), x))
	}
	for _, t := range f.tasks[f.next+1:] {
		t.End(task.Unget())
	}
}
