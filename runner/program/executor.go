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
	lines   bool // one process per batch
	chain   answers.ChainTypes
	codes   map[int]string
	options handler.Options
	// inlineBytes and outputBytes bound outputs (see handler.Options).
	inlineBytes, outputBytes int64
	access                   sandbox.Access
	limits                   sandbox.Limits

	logs     *runlog.Keeper // nil: keep no logs
	logBytes int64          // 0: keep no logs
}

var _ task.Executor = (*Executor)(nil)

// KeepLogs makes the executor keep logs if its settings have LogBytes. Call it before the first Run.
func (e *Executor) KeepLogs(k *runlog.Keeper) { e.logs = k }

// Run runs a batch of jobs and ends each. With frames = "lines" the jobs share one process. Otherwise they run one
// after another, each in a new process.
func (e *Executor) Run(tasks []*task.Task) {
	if e.lines {
		e.runBatch(tasks)
		return
	}
	for _, t := range tasks {
		t.End(e.runSingle(t))
	}
}

// Close does nothing, because an executor keeps nothing between batches.
func (e *Executor) Close() {}
