package program

import (
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/task"
)

// Executor runs the jobs of one handler. It implements task.Executor.
type Executor struct {
	sandbox *sandbox.Sandbox
	argv    []string
	env     []string // of every run
	dir     string
	lines   bool // one process a batch
	chain   answers.ChainTypes
	codes   map[int]string
	options handler.Options
	// inlineBytes and outputBytes bound outputs, as handler.Options says.
	inlineBytes, outputBytes int64
	access                   sandbox.Access
	limits                   sandbox.Limits

	logs     *runlog.Keeper // nil: no logs are kept
	logBytes int64          // 0: neither
}

var _ task.Executor = (*Executor)(nil)

// KeepLogs makes the executor keep logs, if its settings say so. It is called before the first Run.
func (e *Executor) KeepLogs(k *runlog.Keeper) { e.logs = k }

// Run runs a batch of jobs and ends each of them: in one process with frames = "lines", otherwise in a process of its
// own, one after the other.
func (e *Executor) Run(tasks []*task.Task) {
	if e.lines {
		e.runBatch(tasks)
		return
	}
	for _, t := range tasks {
		t.End(e.runSingle(t))
	}
}

// Close does nothing: nothing is kept between batches.
func (e *Executor) Close() {}
