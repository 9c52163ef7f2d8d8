package program

import (
	"bytes"
	"context"
	"fmt"

	"github.com/daybookq/daybook/runner/answers"
	"github.com/daybookq/daybook/runner/task"
)

// runSingle runs one job in a new process, and returns how the run ended.
func (e *Executor) runSingle(t *task.Task) task.End {
	if t.Context.Err() != nil {
		return task.Error(notAwaited(t.Context))
	}
	p := &process{handler: e, stdin: bytes.NewReader(t.Job.Payload), env: forJob(e.env, t), stop: make(chan struct{})}
	out := &output{most: e.outputBytes, full: func() { close(p.stop) }}
	if len(e.chain) > 0 {
		out.types, out.chain = e.chain, answers.NewReader(1, e.chain, 0)
	}
	p.stdout = out
	if e.logs != nil && e.logBytes > 0 {
		log, err := e.logs.Begin(t.Context, t.Job, e.logBytes, "")
		if err != nil {
			return task.Error(err.Error())
		}
		defer log.Close() // by then the log is stored, or nobody needs it
		p.log = log
	}
	x := p.run(t.Context)
	out.end()
	end := withStatus(e.singleOutcome(t, p, out, x), x)
	if p.log != nil && t.Context.Err() == nil {
		end.LogAddr = p.log.Keep(t.Context)
	}
	return end
}

func (e *Executor) singleOutcome(t *task.Task, p *process, out *output, x ended) task.End {
	stderr := p.errors.String()
	switch {
	case x.why == abandoned:
		return task.Error(withTail(notAwaited(t.Context), stderr))
	case x.why == timedOut:
		return task.Error(withTail(p.tooSlow("the program took longer than"), stderr))
	case out.tooLong:
		return task.Failed(withTail(fmt.Sprintf("the program wrote more than options.output_bytes, %d bytes, to its stdout, and was ended", e.outputBytes), stderr))
	case x.unable:
		return task.CannotRun(x.err.Error())
	case x.err != nil:
		return task.Error(withTail(x.err.Error(), stderr))
	}
	end := e.outcome(x.Status(), e.errorText(x.Exit, stderr))
	if end.Code != ok && end.Code != failed {
		return end // the job runs again, and would create its jobs again
	}
	if out.chain != nil {
		out.chain.Line([]byte("200")) // the Reader then completes the job's answer, with its J lines
		a := out.chain.Rest()[0]
		if a.Code != "" {
			return task.Error(withTail("stdout: "+a.Text, stderr))
		}
		end.Then = a.Then
	}
	end.Output, end.OutputKind, end.MostInline = out.text, kindOf(out.text), e.inlineBytes
	return end
}

// notAwaited returns the error of a run whose result nobody waits for, with the reason.
func notAwaited(ctx context.Context) string {
	return fmt.Sprintf("the run was ended: %v", context.Cause(ctx))
}
