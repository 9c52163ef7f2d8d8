package wasi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/task"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

// refused returns the end of a task whose guest did not run, or whose blobs could not be read or stored.
func (x *executor) refused(t *task.Task, err error) task.End {
	var final *refusal
	var away *awayError
	var machine *machineError
	switch {
	case t.Context.Err() != nil:
		return task.Error(notAwaited(t.Context))
	case errors.As(err, &final):
		return task.Failed(final.text)
	case errors.Is(err, errStopped), errors.Is(err, errNoBinary): // after errNoBinary, the runner pauses claims of the type
		return task.Unget()
	case errors.As(err, &machine), errors.As(err, &away):
		x.pool.giveBack(t.Context, t.Job.ID, err)
		return task.Unget()
	}
	return task.Error(err.Error())
}

const (
	// firstPause is how long a run keeps its slots before its job goes back to its queue, so that the runner does not
	// claim, run and return jobs in a tight loop. The pause doubles each time that the same job is returned, up to
	// mostPause.
	firstPause = time.Second
	mostPause  = 30 * time.Second
	// lackSayEvery is the minimum interval between log lines about what this machine lacks.
	lackSayEvery = 10 * time.Second
	// maxReturned bounds the number of jobs whose last pause is remembered.
	maxReturned = 10_000
)

// giveBack pauses before a job goes back to its queue. It logs errors of this machine.
func (p *Pool) giveBack(ctx context.Context, job string, err error) {
	_, machine := errors.AsType[*machineError](err)
	p.returnedMu.Lock()
	wait := max(p.firstPause, min(2*p.returned[job], mostPause))
	if len(p.returned) >= maxReturned {
		clear(p.returned)
	}
	p.returned[job] = wait
	say := machine && time.Since(p.lackSaid) >= lackSayEvery
	if say {
		p.lackSaid = time.Now()
	}
	p.returnedMu.Unlock()
	if machine {
		p.counters.lack()
	}
	if say {
		p.settings.Log.Warn("this machine cannot run a WASI guest now; the job goes back to its queue", "error", err)
	}
	pause := time.NewTimer(wait)
	defer pause.Stop()
	select {
	case <-ctx.Done():
	case <-p.life.Done():
	case <-pause.C:
	}
}

// reported forgets the pauses of a job that has an outcome.
func (p *Pool) reported(job string) {
	p.returnedMu.Lock()
	defer p.returnedMu.Unlock()
	delete(p.returned, job)
}

// endName returns the name that Stats uses for the end of a run.
func endName(result *guest.Result, err error) string {
	switch {
	case err != nil:
		return reasonOf(err)
	case result.End == guest.Exit && result.Code == 0:
		return "ok"
	case result.End == guest.Exit:
		return "exit"
	case result.End == guest.Trap:
		return "trap"
	case result.End == guest.Lack:
		return "machine"
	}
	return "refused"
}

// notAwaited returns the error of a run that was stopped because nobody waits for its result.
func notAwaited(ctx context.Context) string {
	return fmt.Sprintf("the run was ended: %v", context.Cause(ctx))
}

// endEmpty ends a task whose module has nothing to run.
func (x *executor) endEmpty(ctx context.Context, t *task.Task) {
	status := int64(0)
	address, err := newOutput(ctx, x.pool, t.Job, x.inlineBytes).store()
	if err != nil {
		t.End(x.refused(t, err))
		return
	}
	t.End(task.End{Outcome: client.Outcome{Code: "ok", OutputAddr: address, ProcessExit: &status}})
}

// outcome converts the end of a run to the end of its task. damaged reports that the cache has a damaged module.
func (x *executor) outcome(t *task.Task, r *call, result *guest.Result, err error) (end task.End, damaged bool) {
	ok := err == nil && result.End == guest.Exit && result.Code == 0
	stderr := r.stderr.String()
	var read *readError
	switch {
	case errors.Is(err, errTimeout):
		return task.Error(withTail(fmt.Sprintf("the guest took longer than %s, %d ms, and was ended", x.timeoutOf, x.timeout.Milliseconds()), stderr)), false
	case errors.Is(err, errStopped):
		if t.Context.Err() == nil { // the pool is closed
			return task.Unget(), false
		}
		return task.Error(withTail(notAwaited(t.Context), stderr)), false
	case errors.As(err, &read):
		return x.refused(t, inputError(t.Job, read.err)), false
	case err != nil:
		return x.refused(t, err), false
	}
	switch result.End {
	case guest.Exit:
	case guest.Trap:
		return task.Error(withTail(result.Text, stderr)), false
	case guest.Load:
		return task.Error("the module could not be loaded: " + result.Text), true
	case guest.NoProc:
		return cannot(t, "the handler requires proc:read:*, and this machine has no /proc: "+result.Text), false
	default: // Link, Memory
		if result.End == guest.Memory && x.lowered {
			return task.Error(withTail("the module cannot run here: "+result.Text+"; "+x.memoryOf+" allows no more", stderr)), false
		}
		return cannot(t, withTail("the module cannot run: "+result.Text, stderr)), false
	}
	status := int64(result.Code)
	if !ok {
		text := stderr
		if text == "" {
			text = fmt.Sprintf("exit status %d", result.Code)
		}
		end := task.Error(text)
		end.ProcessExit = &status
		return end, false
	}
	address, err := r.output.store()
	if err != nil {
		return x.refused(t, err), false
	}
	return task.End{Outcome: client.Outcome{
		Code: "ok", Output: r.output.held, OutputKind: r.output.kind(), OutputAddr: address, ProcessExit: &status,
	}}, false
}

// cannot returns the end of a task whose module cannot run. If it is the handler's module, no other job of the handler
// can run either.
func cannot(t *task.Task, text string) task.End {
	if t.Job.BinaryAddr == "" {
		return task.CannotRun(text)
	}
	return task.Failed(text)
}

// withTail adds the end of stderr to a text.
func withTail(text, stderr string) string {
	if stderr == "" {
		return text
	}
	return text + "\n" + stderr
}
