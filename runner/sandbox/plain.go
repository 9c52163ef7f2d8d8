package sandbox

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// group is the process group of a process that was started without the helper.
type group struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	gone bool // the system may give its id to another group
}

// startPlain starts a process in a new group, without any other restriction.
func startPlain(c *Command, path string) (*Process, error) {
	g := &group{cmd: &exec.Cmd{
		Path: path, Args: c.Argv, Env: c.Env, Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		ExtraFiles: c.Files, SysProcAttr: groupAttributes(), WaitDelay: copyWait,
	}}
	if g.cmd.Env == nil {
		g.cmd.Env = []string{} // nil would mean the runner's environment
	}
	if err := startOnThread(g.cmd); err != nil {
		return nil, err
	}
	return &Process{cmd: g.cmd, kill: g.signaller(killGroup), terminate: g.signaller(terminateGroup), exited: g.exited, release: g.release}, nil
}

func (g *group) signaller(send func(*os.Process)) func() {
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.gone {
			send(g.cmd.Process)
		}
	}
}

// exited waits for the program and ends the rest of its group, if the system can wait without freeing the group's id.
func (g *group) exited() (Exit, bool) {
	if awaitExit(g.cmd.Process) {
		g.release()
	}
	return Exit{}, false
}

// release ends the rest of the group.
func (g *group) release() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		killGroup(g.cmd.Process)
		g.gone = true
	}
	return nil
}

// plainExit returns the Exit of a process that was started without the helper, or of the helper itself.
func plainExit(state *os.ProcessState) Exit {
	if state == nil {
		return Exit{Code: -1}
	}
	e := Exit{Code: state.ExitCode(), User: state.UserTime(), System: state.SystemTime(), MaxResidentBytes: maxResident(state)}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		e.Code, e.Signal = -1, w.Signal()
	}
	return e
}
