package sandbox

import (
	"errors"
	"os/exec"
	"sync"
	"time"
)

// copyWait is how long Wait waits, after the processes are gone, for what they have written. Something is left over for
// that long only if a process has left the tree, or if Stdin of the command does not return.
const copyWait = 5 * time.Second

// Process is a process that Start has started.
type Process struct {
	cmd *exec.Cmd // the helper, or the program itself

	// What the system does, set once by Start.
	kill      func()
	terminate func()
	// exited waits for the program, and ends what is left of the tree. It reports false if the end of cmd says how the
	// program ended.
	exited func() (Exit, bool)
	// release frees what the process had, after everything has ended.
	release func() error

	wait sync.Once
	exit Exit
	err  error
}

// Kill ends all processes of the tree at once. It may be called at any time, and repeatedly.
func (p *Process) Kill() { p.kill() }

// Terminate sends SIGTERM to the program and its process group, so that it can end by itself. It may be called at any
// time, and repeatedly.
func (p *Process) Terminate() { p.terminate() }

// Pid returns the id of the first process of the tree: the program, or the helper that has started it. It is valid until
// Wait returns.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Wait waits until all processes of the tree are gone and their output is copied. It returns how the program ended. The
// error is not of the program: the output could not be copied, or something could not be ended. Wait may be called
// repeatedly.
func (p *Process) Wait() (Exit, error) {
	p.wait.Do(func() {
		exit, known := p.exited()
		p.err = p.cmd.Wait()
		if p.exit = exit; !known {
			p.exit = plainExit(p.cmd.ProcessState)
		}
		if _, ok := errors.AsType[*exec.ExitError](p.err); ok {
			p.err = nil // the exit says it
		}
		if p.release != nil {
			p.err = errors.Join(p.err, p.release())
		}
	})
	return p.exit, p.err
}
