package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/internal/containerjob"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/program"
	"github.com/daybookq/daybook/runner/task"
)

// Handler is a handler of kind container.
type Handler struct {
	Images    *Images           // images that its jobs may run; nil means Settings.Images
	ExitCodes map[string]string // as in program.Settings
	Options   handler.Options
}

// Executor runs the jobs of one handler. It implements task.Executor.
type Executor struct {
	engine      *Engine
	images      *Images
	codes       map[int]string
	memoryBytes int64
	timeout     time.Duration
}

var _ task.Executor = (*Executor)(nil)

// Executor returns the executor of a handler. Its error is a *handler.FieldError, which names the wrong field.
func (e *Engine) Executor(h Handler) (*Executor, error) {
	document := handler.Document{Kind: handler.Container, Options: &h.Options}
	if err := document.Check(); err != nil {
		return nil, err
	}
	x := &Executor{engine: e, images: h.Images, memoryBytes: cmp.Or(h.Options.MemoryBytes, e.MemoryBytes), timeout: e.Timeout}
	if h.Options.TimeoutMs > 0 {
		x.timeout = time.Duration(h.Options.TimeoutMs) * time.Millisecond
	}
	if x.images == nil {
		x.images = e.Images
	}
	if x.images.None() {
		return nil, &handler.FieldError{Field: "images", Text: "images is missing: no image is allowed; list those that jobs may run, as in docker.io/library/busybox:*"}
	}
	var err error
	x.codes, err = program.ExitCodes(h.ExitCodes)
	return x, err
}

// Run runs jobs one after the other, each in a new container, and reports the end of each.
func (x *Executor) Run(tasks []*task.Task) {
	for _, t := range tasks {
		t.End(x.runJob(t))
	}
}

// Close does nothing: an executor keeps nothing between jobs.
func (x *Executor) Close() {}

// runJob runs a job and returns the end of the run. It leaves nothing behind, unless the engine does not answer.
func (x *Executor) runJob(t *task.Task) task.End {
	r := &run{engine: x.engine, executor: x, task: t, job: t.Job, reason: becauseRunner}
	x.engine.counters.change(func(n *Stats) { n.Running++ })
	end := r.whole()
	x.engine.counters.ended(&end, r.reason)
	return end
}

// whole prepares the run, runs it, and removes its workspace.
func (r *run) whole() task.End {
	e, t := r.engine, r.task
	if t.Context.Err() != nil {
		r.reason = becauseNotAwaited
		return task.Unget() // not started yet, and nobody waits for it
	}
	if end, ok := r.read(); !ok {
		r.reason = becauseRefused
		return end
	}
	if e.tooManyOrphans() {
		r.reason = becauseEngineAway
		return r.back(t.Context, fmt.Errorf("the engine has %d containers that it does not remove", maxOrphans))
	}
	if err := e.available(t.Context); err != nil {
		e.Log.Warn("a job goes back to its queue, because the container engine does not answer", "job_id", t.Job.ID, "error", err)
		r.reason = becauseEngineAway
		return task.Unget()
	}
	ws, err := e.workspaces.newRun()
	if err != nil {
		if diskFull(err) {
			r.reason = becauseDiskFull
			return r.back(t.Context, err)
		}
		return task.Error(err.Error())
	}
	r.workspace = ws
	defer func() { e.leave(r.orphan, ws) }()
	return r.run()
}

// read parses the payload and checks it. If ok is false, end is the end of the run.
func (r *run) read() (end task.End, ok bool) {
	d, err := containerjob.Parse(r.job.Payload)
	if err == nil {
		r.document = d
		r.dir, err = d.Container.Config.Directory()
	}
	if err == nil {
		r.report.Image, err = r.executor.images.resolve(d.Container.Config.Image)
	}
	if err == nil {
		r.user, r.group, err = r.engine.user(d.Container.Config.User)
	}
	if err == nil && r.engine.Filesets == nil && (d.Fileset.Input != nil || d.Fileset.Output != nil) {
		err = errors.New("this runner has no filesets")
	}
	if err != nil {
		return task.Failed(err.Error()), false
	}
	return end, true
}

// notAwaited returns the error of a run that was stopped because nobody waits for its result.
func notAwaited(ctx context.Context) string {
	return fmt.Sprintf("the run was ended: %v", context.Cause(ctx))
}
