package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/internal/testkit"
)

// Command is a server to start.
type Command struct {
	Path string
	Args []string
	Dir  string   // its working directory
	Env  []string // in addition to this process's environment
	// User is the server's user if this process runs as root, for servers that refuse to run as root. Empty means the
	// same user.
	User string
	Stop syscall.Signal // ends the server in an orderly way; 0 means SIGTERM
}

// Process is a running server.
type Process struct {
	cmd  *exec.Cmd
	stop syscall.Signal
	said testkit.Log
	done chan struct{} // closed when the process has ended
	err  error         // how it ended; read it after done is closed
}

// stopIn is how long a server may take to end in an orderly way before it is killed.
const stopIn = 20 * time.Second

// Start starts a server.
func Start(c Command) (*Process, error) {
	p := &Process{cmd: exec.Command(c.Path, c.Args...), stop: c.Stop, done: make(chan struct{})}
	if p.stop == 0 {
		p.stop = syscall.SIGTERM
	}
	p.cmd.Dir, p.cmd.Env = c.Dir, append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	// A separate process group keeps an interrupt at the terminal away from the server: this process ends it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(p.cmd.SysProcAttr)
	if c.User != "" && os.Getuid() == 0 {
		id, err := credential(c.User)
		if err != nil {
			return nil, err
		}
		p.cmd.SysProcAttr.Credential = id
	}
	started := make(chan error)
	go p.attend(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return p, nil
}

// attend starts the process, and waits for its end. It locks its thread: Linux ends the process when the thread that
// started it ends.
func (p *Process) attend(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

// credential returns the ids of a user and of the user's group.
func credential(name string) (*syscall.Credential, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Own makes the command's user the owner of a directory, if this process may do that.
func (c Command) Own(dir string) error {
	if c.User == "" || os.Getuid() != 0 {
		return nil
	}
	id, err := credential(c.User)
	if err != nil {
		return err
	}
	return os.Chown(dir, int(id.Uid), int(id.Gid))
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Until calls ready until it returns nil. It returns an error if the process or ctx ends before.
func (p *Process) Until(ctx context.Context, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("the server ended before it answered: %w: %s", p.Err(), p.said.String())
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer: %w; %w: %s", err, context.Cause(ctx), p.said.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits until the process has ended, and returns its error.
func (p *Process) Err() error {
	<-p.done
	if p.err == nil {
		return errors.New("exit code 0")
	}
	return p.err
}

// Close ends the process, with SIGKILL if it does not end soon, and waits for the end. It ignores how the process ends,
// since its data are deleted.
func (p *Process) Close() error {
	if err := p.cmd.Process.Signal(p.stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopIn):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// Time returns the processor time that a process and its descendants have used. It counts in steps of 10 ms.
func Time(pid int) (total time.Duration, err error) {
	all, err := rig.Descendants(pid)
	for _, used := range all {
		total += used
	}
	return total, err
}
