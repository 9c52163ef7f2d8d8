package daybooktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Binary returns the path of the server: DAYBOOK_BINARY where it is set; else what the go command builds, in a module or
// workspace whose tool daybook is; else the daybook in PATH.
func Binary() (string, error) { return found() }

var found = sync.OnceValues(findBinary)

func findBinary() (string, error) {
	if path := os.Getenv("DAYBOOK_BINARY"); path != "" {
		return path, nil
	}
	var said strings.Builder
	build := exec.Command("go", "tool", "-n", "daybook") // prints where it is in the build cache
	build.Stderr = &said
	if path, err := build.Output(); err == nil {
		return strings.TrimSpace(string(path)), nil
	} else if !errors.Is(err, exec.ErrNotFound) && !strings.Contains(said.String(), "no such tool") {
		return "", fmt.Errorf("build daybook: %w: %s", err, said.String())
	}
	path, err := exec.LookPath("daybook")
	if err != nil {
		return "", fmt.Errorf("no daybook to start: name it in DAYBOOK_BINARY, or put it into PATH, "+
			"or `go get -tool github.com/daybookq/daybook/cmd/daybook`: %w", err)
	}
	return path, nil
}

// Process is a server as a process of its own, for programs that are not tests. Its methods are for one goroutine at a
// time, but for Done and Err.
type Process struct {
	Binary string    // see Binary
	Data   string    // the data directory; made when it does not exist
	Args   []string  // further flags of serve
	Log    io.Writer // its standard error; nil drops it

	// Listen is the address to listen on; after the first Start it is the one that was bound, so that a restart keeps it.
	Listen string

	cmd   *exec.Cmd
	bound chan string   // capacity 1: where it listens
	done  chan struct{} // closed when it has ended
	err   error         // how; read after done
}

// URL is where the server listens.
func (p *Process) URL() string { return "http://" + p.Listen }

// Pid is the process id of the running server.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Start starts the server and returns once it is ready to serve, or with the reason why it is not within ctx.
func (p *Process) Start(ctx context.Context) error {
	if err := p.Launch(); err != nil {
		return err
	}
	if err := p.Ready(ctx); err != nil {
		return errors.Join(err, p.Kill())
	}
	return nil
}

// Launch starts the process and returns at once.
func (p *Process) Launch() error {
	if p.Listen == "" {
		p.Listen = "127.0.0.1:0"
	}
	args := append([]string{"serve", "--listen", p.Listen, "--data", p.Data, "--init"}, p.Args...)
	cmd := exec.Command(p.Binary, args...)
	cmd.Stderr = p.Log
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DAYBOOK_") }) // settings are Args
	endWithParent(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.cmd, p.bound, p.done = cmd, make(chan string, 1), make(chan struct{})
	started := make(chan error)
	go p.attend(out, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Binary, err)
	}
	return nil
}

// attend starts the process, and waits for its end. It keeps its thread, since Linux takes the end of the thread that
// started a process for the end of its parent.
func (p *Process) attend(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	cmd, bound, done := p.cmd, p.bound, p.done
	if err := cmd.Start(); err != nil {
		p.cmd = nil
		started <- err
		return
	}
	started <- nil
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
			bound <- strings.TrimSpace(address)
			break
		}
	}
	_, _ = io.Copy(io.Discard, out) // it ends with the process, in whichever way
	p.err = cmd.Wait()
	close(done)
}

// Ready returns once the launched server is ready to serve, or with the reason why it is not within ctx. A start that replays much is up
// before it is ready.
func (p *Process) Ready(ctx context.Context) error {
	select {
	case p.Listen = <-p.bound:
	case <-p.done:
		return fmt.Errorf("the server ended at once: %w", p.err)
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultClient.Do(req); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return fmt.Errorf("the server ended before it was ready: %w", p.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Done is closed when the launched process has ended, by whatever cause; Err then says how.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended: nil with exit code 0, *exec.ExitError otherwise. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends a signal and does not wait for what it does.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Kill ends the server with SIGKILL and waits for it.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends the server with SIGTERM and waits for it.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM) }

func (p *Process) end(signal syscall.Signal) error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	p.cmd = nil
	if signal == syscall.SIGKILL {
		return nil // how it ended is what we did
	}
	return p.err
}
