package sandbox

import (
	"errors"
	"os/exec"
	"sync"
	"time"
)

// copyWait is how long Wait waits for output after the processes are gone. It takes that long only if a process has
// left the tree, or if the command's Stdin does not return.
const copyWait = 5 * time.Second

// Process is a process that Start has started.
type Process struct {
	cmd *exec.Cmd // the helper, or the program itself

	// Functions of the system, set once by Start.
	kill      func()
	terminate func()
	// exited waits for the program and ends the rest of the tree. It returns false if the exit status of cmd is the
	// program's.
	exited func() (Exit, bool)
	// release frees the process's resources after everything has ended.
	release func() error

	wait sync.Once
	exit Exit
	err  error
}

// Kill immediately ends all processes of the tree. It may be called at any time, and repeatedly.
func (p *Process) Kill() { p.kill() }

// Terminate sends SIGTERM to the program and its process group, so that the program can end itself. It may be called at
// any time, and repeatedly.
func (p *Process) Terminate() { p.terminate() }

// Pid returns the id of the tree's first process: the program, or the helper that has started it. It is valid until
// Wait returns.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Wait waits until all processes of the tree are gone and their output is copied. It returns the program's Exit. A
// failed program is no error; the error means that output could not be copied or a process could not be ended. Wait may
// be called repeatedly.
func (p *Process) Wait() (Exit, error) {
	p.wait.Do(func() {
		exit, known := p.exited()
		p.err = p.cmd.Wait()
		if p.exit = exit; !known {
			p.exit = plainExit(p.cmd.ProcessState)
		}
		if _, ok := errors.AsType[*exec.ExitError](p.err); ok {
			p.err = nil // the Exit has it
		}
		if p.release != nil {
			p.err = errors.Join(p.err, p.release())
		}
	})
	return p.exit, p.err
}
