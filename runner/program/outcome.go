package program

import (
	"fmt"
	"syscall"
	"unicode/utf8"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// outcome returns the outcome of an exit status. text is its error, unless it is ok.
func (e *Executor) outcome(status int, text string) task.End {
	switch e.codes[status] {
	case ok:
		return task.OK(nil, client.None)
	case failed:
		return task.Failed(text)
	case retry:
		return task.Retry(text, -1)
	}
	return task.Error(text)
}

// errorText describes how a process ended: the end of its stderr, or its exit status if it got a signal or stderr is
// empty.
func (e *Executor) errorText(exit sandbox.Exit, stderr string) string {
	switch {
	case exit.Signal == syscall.SIGKILL && e.limits.MemoryBytes > 0:
		return withTail(fmt.Sprintf("%s; a program that needs more memory than options.memory_bytes, %d, is killed", exit, e.limits.MemoryBytes), stderr)
	case exit.Signal != 0:
		return withTail(exit.String(), stderr)
	case stderr != "":
		return stderr
	}
	return exit.String()
}

// withTail appends the end of stderr to a text.
func withTail(text, stderr string) string {
	if stderr == "" {
		return text
	}
	return text + "\n" + stderr
}

// withStatus adds the exit status of the process, if one ran.
func withStatus(end task.End, x ended) task.End {
	if x.Signal != 0 || x.Code >= 0 {
		status := int64(x.Status())
		end.ProcessExit = &status
	}
	return end
}

// kindOf returns the kind of an output.
func kindOf(output []byte) client.Kind {
	switch {
	case len(output) == 0:
		return client.None
	case utf8.Valid(output):
		return client.Text
	}
	return client.Bytes
}
