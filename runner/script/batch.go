package script

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/script/protocol"
	"github.com/daybookq/daybook/runner/task"
)

// sendBytes is how much of a batch is encoded before it is sent. The connection buffers about as much before the host
// reads.
const sendBytes = 64 << 10

// batch is one run of several jobs in a context, one after another.
type batch struct {
	*executor
	host     *host
	tasks    []*task.Task
	answered int
	used     bool // something else ran in the context before this batch
	exits    bool // the running job ends the process
	prints   prints

	sender sync.WaitGroup
	unsent error // why sending failed; read it after sender is done
}

// errBefore means that before_each failed, so no job of the batch has begun.
var errBefore = errors.New("before_each failed")

// errUsed means that a used context broke, perhaps because of something that an earlier job left behind: a timer, a
// thread, a promise, a process, memory. The cause is unknown, so the first job without an answer is not ended. It must
// run alone in a new context, where only the job itself can be the cause.
var errUsed = errors.New("the context was used before")

// run runs a batch and ends each task. If it returns an error, the context cannot run another batch.
func (b *batch) run(number int) error {
	b.host.runs += len(b.tasks)
	b.host.handlerType.Store(&b.Type)
	b.prints.chain = b.Document.ChainTypes
	b.prints.log = func(text string) { b.host.limiter.log(text, b.logPrint) }
	defer b.host.limiter.end(b.logPrint)
	b.host.child.conn.SetWriteDeadline(time.Now().Add(b.timeout))
	b.send(number)
	err := b.receive()
	b.host.child.conn.SetWriteDeadline(time.Unix(1, 0)) // a host that has answered all jobs has read all of them
	b.sender.Wait()
	if err == nil && b.unsent != nil {
		err = b.host.broken(fmt.Errorf("it answered jobs that it did not read: %w", b.unsent), "", 0)
	}
	return err
}

// send sends the batch. If the batch is too long for the connection's buffer, a goroutine sends the rest while receive
// reads answers.
func (b *batch) send(number int) {
	first := b.tasks[0].Job
	message := protocol.Batch{Jobs: len(b.tasks), Handler: number, Client: first.Client, Type: b.Type, OutputBytes: b.outputBytes}.Append(b.host.message[:0])
	next := 0
	encode := func() {
		for next < len(b.tasks) && len(message) < sendBytes {
			message = protocol.AppendJob(message, b.tasks[next].Job, b.interpreter.encoding)
			next++
		}
	}
	encode()
	if next == len(b.tasks) && len(message) <= sendBytes {
		b.unsent = b.host.child.write(message)
		b.host.message = message
		return
	}
	b.host.child.conn.SetWriteDeadline(time.Time{}) // without a deadline: run sets one after receive
	b.sender.Go(func() {
		for len(message) > 0 {
			if b.unsent = b.host.child.write(message); b.unsent != nil {
				return
			}
			if message = message[:0]; cap(message) > 16*sendBytes {
				message = nil
			}
			encode()
		}
	})
}

// receive ends each task when its answer arrives.
func (b *batch) receive() error {
	if b.Document.BeforeEach != "" {
		if err := b.begun(); err != nil {
			return err
		}
	}
	for b.answered < len(b.tasks) {
		t := b.tasks[b.answered]
		b.host.child.begin(t.Context, b.timeout)
		m, err := b.next()
		switch {
		case errors.Is(err, protocol.ErrTooLong):
			b.prints.finish()
			b.answer(tooLarge(fmt.Sprintf("more than %d bytes", b.outputBytes), b.outputBytes))
		case err != nil:
			return b.fail(b.host.broken(err, "the job", b.timeout), errors.Is(err, errStopped))
		case m.Job == nil || *m.Job != b.answered:
			return b.fail(b.host.broken(fmt.Errorf("it did not answer job %d of the batch, as it had to", b.answered), "", 0), false)
		default:
			end := endOf(m, &b.prints, b.interpreter.encoding, b.outputBytes)
			end.MostInline = b.inlineBytes
			b.answer(end)
		}
	}
	return b.done()
}

func (b *batch) answer(end task.End) {
	b.tasks[b.answered].End(end)
	b.answered++
}

// begun waits until the host has run before_each.
func (b *batch) begun() error {
	ctx, stop := task.WhileWanted(b.tasks)
	defer stop()
	b.host.child.begin(ctx, b.timeout)
	m, err := b.next()
	switch {
	case errors.Is(err, errStopped):
		err = b.host.broken(err, "", 0)
		b.unget()
		return err
	case err != nil && b.used:
		return fmt.Errorf("%w: %w", errUsed, b.host.broken(err, "before_each", b.timeout))
	case err != nil:
		err = b.host.broken(err, "before_each", b.timeout)
	case !m.Begun:
		err = b.host.broken(errors.New("it did not say whether it ran before_each"), "", 0)
	case m.Error != "":
		err = errors.New(m.Error)
	default:
		return nil
	}
	for b.answered < len(b.tasks) {
		b.answer(task.Error(err.Error()))
	}
	return fmt.Errorf("%w: %w", errBefore, err)
}

// done waits until the host has run after_each. All jobs have their answers, so no job waits for this.
func (b *batch) done() error {
	b.host.child.begin(context.Background(), b.timeout)
	m, err := b.next()
	if then, _ := b.prints.finish(); len(then) > 0 { // the batch's jobs have ended
		b.logLine(Line{Stream: "runner", Text: "the J: lines of after_each create no jobs"})
	}
	switch {
	case err != nil:
		err = b.host.broken(err, "after_each", b.timeout)
	case !m.Done:
		err = b.host.broken(errors.New("it did not end the batch"), "", 0)
	case m.Error != "":
		err = fmt.Errorf("after_each: %s", m.Error)
	default:
		return nil
	}
	b.logLine(Line{Stream: "runner", Text: err.Error()})
	return err
}

// next returns the next message that contains more than prints.
func (b *batch) next() (*protocol.Message, error) {
	for {
		m, err := b.host.child.next(b.lineLimit)
		if err != nil {
			return nil, err
		}
		b.prints.broken = b.prints.broken || m.Broken
		b.prints.write(m.Prints)
		b.exits = b.exits || m.Exits
		if m.Loaded != nil {
			return nil, errors.New("it answered that a handler is loaded")
		}
		if m.Begun || m.Done || m.Job != nil {
			return m, nil
		}
	}
}

// fail ends the tasks without an answer. The first is an error if nobody waits for it, or if only it can be the cause:
// it has ended the process itself, or the context had never run another job. All later jobs are given back.
func (b *batch) fail(err error, unwanted bool) error {
	if unwanted || b.exits || !b.used && b.answered == 0 {
		b.answer(task.Error(err.Error()))
		b.unget()
		return err
	}
	b.logLine(Line{Stream: "runner", Job: b.tasks[b.answered].Job.ID, Text: "the context has ended while this job ran. An earlier job may be the reason, so it runs again, alone in a new context: " + err.Error()})
	for _, t := range b.tasks[b.answered+1:] {
		t.End(task.Unget())
	}
	return fmt.Errorf("%w: %w", errUsed, err)
}

func (b *batch) unget() {
	for b.answered < len(b.tasks) {
		b.answer(task.Unget())
	}
}

func (b *batch) logPrint(text string) {
	line := Line{Stream: "stdout", Text: text}
	if b.answered < len(b.tasks) {
		line.Job = b.tasks[b.answered].Job.ID
	}
	b.logLine(line)
}

func (b *batch) logLine(line Line) {
	line.Lang, line.Client, line.Type = b.Document.Lang, b.host.key.client, b.Type
	b.pool.log(line)
}
