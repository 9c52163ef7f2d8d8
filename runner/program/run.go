package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/daybookq/daybook/runner/runlog"
	"github.com/daybookq/daybook/runner/sandbox"
)

// grace is the time that a program has to end after SIGTERM.
const grace = 2 * time.Second

// ending is why the runner ended a process.
type ending int

const (
	byItself  ending = iota
	timedOut         // it took longer than options.timeout_ms
	abandoned        // nobody waits for the result any more: the context ended
	stopped          // its output was too long
)

// process is one run of the program.
type process struct {
	handler *Executor
	stdin   io.Reader
	stdout  io.Writer
	errors  tail
	log     *runlog.Log // also gets stderr; nil if no log is kept
	env     []string

	stop chan struct{} // closed to kill the process immediately
	more chan struct{} // a value restarts the time-out; nil if nothing does
}

// ended describes how a run of the program ended.
type ended struct {
	sandbox.Exit
	why ending
	err error // the program could not be started, or its output could not be read
	// unable: it could not be started, for this job or any other.
	unable bool
}

// run starts the program and waits until it ends. It ends the program at the time-out, or when ctx ends.
func (p *process) run(ctx context.Context) ended {
	e := p.handler
	var stderr io.Writer = &p.errors
	if p.log != nil {
		stderr = io.MultiWriter(stderr, p.log)
	}
	running, err := e.sandbox.Start(sandbox.Command{
		Argv: e.argv, Env: p.env, Dir: e.dir, Stdin: p.stdin, Stdout: p.stdout, Stderr: stderr, Limits: e.limits, Access: e.access,
	})
	if err != nil {
		return ended{Exit: sandbox.Exit{Code: -1}, err: err, unable: !errors.Is(err, syscall.E2BIG)} // E2BIG depends on the job: its metadata and arguments are too long
	}
	var why ending
	var watch sync.WaitGroup
	gone := make(chan struct{})
	watch.Go(func() { why = p.watch(ctx, running, gone) })
	exit, err := running.Wait()
	close(gone)
	watch.Wait()
	return ended{Exit: exit, why: why, err: err}
}

// watch ends the process if necessary, and returns why. It returns when the process has ended or was killed.
func (p *process) watch(ctx context.Context, running *sandbox.Process, gone <-chan struct{}) ending {
	var timer *time.Timer
	var timeout <-chan time.Time
	limit := time.Duration(p.handler.options.TimeoutMs) * time.Millisecond
	if limit > 0 {
		timer = time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	why := byItself
	for why == byItself {
		select {
		case <-gone:
			return byItself
		case <-p.stop:
			running.Kill()
			return stopped
		case <-p.more:
			if timer != nil {
				timer.Reset(limit)
			}
		case <-timeout:
			why = timedOut
		case <-ctx.Done():
			why = abandoned
		}
	}
	running.Terminate()
	patience := time.NewTimer(grace)
	defer patience.Stop()
	for {
		select {
		case <-gone:
			return why
		case <-p.stop:
			running.Kill()
			return why
		case <-patience.C:
			running.Kill()
			return why
		case <-p.more:
		}
	}
}

// tooSlow returns the text of a time-out's error.
func (p *process) tooSlow(what string) string {
	return fmt.Sprintf("%s options.timeout_ms, %d ms", what, p.handler.options.TimeoutMs)
}
