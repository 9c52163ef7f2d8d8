package runners

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
)

// goneIn is how long the processes of a runner may outlive it. The kernel ends them within milliseconds; the rest is for
// a busy machine.
const goneIn = time.Minute

// runner is a `daybook work` process, which can be started repeatedly.
type runner struct {
	binary string   // on the file system of dir
	dir    string   // in which each start has a directory
	args   []string // of work, without --config
	config func(mark string) string

	mark string // of this start
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read it after done is closed
	log  *tail         // of this start
}

// tail keeps the end of a runner's log, and whether the runner has started: then it claims jobs.
type tail struct {
	testkit.Log
	started atomic.Bool
}

func (l *tail) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("the runner has started")) {
		l.started.Store(true)
	}
	return l.Log.Write(p)
}

// start starts the runner with a new mark.
func (r *runner) start() error {
	r.mark = "mark-" + rand.Text()
	dir := filepath.Join(r.dir, r.mark)
	if err := os.MkdirAll(filepath.Join(dir, "cache"), 0o700); err != nil {
		return err
	}
	binary, config := filepath.Join(dir, "daybook"), filepath.Join(dir, "work.toml")
	if err := os.Link(r.binary, binary); err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(r.config(r.mark)), 0o600); err != nil {
		return err
	}
	r.cmd = exec.Command(binary, append([]string{"work", "--config", config}, r.args...)...)
	r.log = &tail{}
	r.cmd.Stderr = r.log
	r.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DAYBOOK_") })
	r.cmd.Env = append(r.cmd.Env, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), // where scripts have their directories
		"GOGC=100") // with more garbage, the heap would grow for longer than a short soak lasts
	testkit.EndWithParent(r.cmd)
	r.done = make(chan struct{})
	started := make(chan error, 1)
	go r.attend(started)
	return <-started
}

// attend starts the process and waits for its end. It locks its thread, since the kernel ends the process with the thread
// that started it.
func (r *runner) attend(started chan<- error) {
	runtime.LockOSThread()
	defer close(r.done)
	if r.err = r.cmd.Start(); r.err != nil {
		r.cmd = nil
		started <- r.err
		return
	}
	cmd := r.cmd
	started <- nil
	r.err = cmd.Wait()
}

// kill ends the runner with SIGKILL. It returns an error if the runner had ended before, or if one of its processes stays
// alive.
func (r *runner) kill() error {
	select {
	case <-r.done:
		return fmt.Errorf("the runner had ended by itself: %v\n%s", r.err, r.log)
	default:
	}
	if err := r.cmd.Process.Kill(); err != nil {
		return err
	}
	<-r.done
	return r.gone()
}

// stopIn is how long a runner may take to end after SIGTERM. It waits for its jobs, which take less than a second each.
const stopIn = 2 * time.Minute

// stop ends the runner with SIGTERM.
func (r *runner) stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop a runner: %w\n%s", err, r.log)
	}
	select {
	case <-r.done:
	case <-time.After(stopIn):
		return errors.Join(fmt.Errorf("a runner did not end within %v of SIGTERM\n%s", stopIn, r.log), r.kill())
	}
	if r.err != nil {
		return fmt.Errorf("a runner ended with %w\n%s", r.err, r.log)
	}
	return r.gone()
}

// gone waits until no process of the runner is alive.
func (r *runner) gone() error {
	left, err := awaitGone(r.mark, goneIn)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d processes of a runner live on %v after it:\n%s", len(left), goneIn, describe(left))
	}
	return err
}

// killOne kills a process that the runner has started, chosen by pick, or reports false if there is none. A runner that
// has not started yet runs interpreters to find out where they are. It does not start if it cannot find out, so killOne
// leaves them alone.
func (r *runner) killOne(pick func(n int) int) (bool, error) {
	if !r.log.started.Load() {
		return false, nil
	}
	below, err := descendants(r.cmd.Process.Pid)
	if err != nil || len(below) == 0 {
		return false, err
	}
	return killMarked(below[pick(len(below))], r.mark)
}

// clean ends the runner's remaining processes after a failed test.
func (r *runner) clean() error {
	if r.cmd == nil {
		return nil
	}
	if err := r.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-r.done
	left, err := marked(r.mark)
	for _, pid := range left {
		if _, e := killMarked(pid, r.mark); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}
