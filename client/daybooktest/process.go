package daybooktest

import (
	"bufio"
	"context"
	"crypto/tls"
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

// Binary returns the path of the server binary. It is the first of:
//   - DAYBOOK_BINARY, if it is set;
//   - the binary that the go command builds, in a module or workspace that has daybook as a tool;
//   - the daybook in PATH.
func Binary() (string, error) { return found() }

var found = sync.OnceValues(findBinary)

func findBinary() (string, error) {
	if path := os.Getenv("DAYBOOK_BINARY"); path != "" {
		return path, nil
	}
	var messages strings.Builder
	build := exec.Command("go", "tool", "-n", "daybook") // prints the path in the build cache
	build.Stderr = &messages
	if path, err := build.Output(); err == nil {
		return strings.TrimSpace(string(path)), nil
	} else if !errors.Is(err, exec.ErrNotFound) && !strings.Contains(messages.String(), "no such tool") {
		return "", fmt.Errorf("build daybook: %w: %s", err, messages.String())
	}
	path, err := exec.LookPath("daybook")
	if err != nil {
		return "", fmt.Errorf("there is no daybook binary to start: %w; set DAYBOOK_BINARY to its path, or put it into PATH, "+
			"or run `go get -tool github.com/daybookq/daybook/cmd/daybook`", err)
	}
	return path, nil
}

// Process is a server process. Programs that are not tests can use it too. One goroutine at a time may call its
// methods; any goroutine may call Done and Err.
type Process struct {
	Binary string    // see Binary
	Data   string    // the data directory; it is created if it does not exist
	Args   []string  // additional flags of serve
	Log    io.Writer // receives its standard error; nil discards it

	// TLS are the settings of clients, if Args make the server speak TLS; nil: it speaks HTTP.
	TLS *tls.Config

	// Listen is the address to listen on; "" means a result of FreeAddress. After the first Start it is the address
	// with the actual port, which a restart keeps.
	Listen string

	cmd     *exec.Cmd     // nil when no process runs
	bound   chan struct{} // closed when the server has printed its address
	address string        // the printed address; read it after bound is closed
	done    chan struct{} // closed when the process has ended
	err     error         // how it ended; read it after done is closed
}

// URL returns the URL of the server.
func (p *Process) URL() string { return p.scheme() + p.Listen }

func (p *Process) scheme() string {
	if p.TLS != nil {
		return "https://"
	}
	return "http://"
}

// Pid returns the process id of the running server, or 0.
func (p *Process) Pid() int {
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Start starts the server, and returns when it is ready to serve. It returns an error if the server is not ready within
// ctx.
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
		address, err := FreeAddress()
		if err != nil {
			return err
		}
		p.Listen = address
	}
	args := append([]string{"serve", "--listen", p.Listen, "--data", p.Data, "--init"}, p.Args...)
	cmd := exec.Command(p.Binary, args...)
	cmd.Stderr = p.Log
	// Only Args are settings.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DAYBOOK_") })
	endWithParent(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.cmd, p.bound, p.done = cmd, make(chan struct{}), make(chan struct{})
	started := make(chan error)
	go p.attend(out, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Binary, err)
	}
	return nil
}

// attend starts the process, and waits for its end. It locks its thread: Linux ends the process when the thread that
// started it ends.
func (p *Process) attend(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	cmd, bound, done := p.cmd, p.bound, p.done
	if err := cmd.Start(); err != nil {
		p.cmd, p.err = nil, err
		close(done)
		started <- err
		return
	}
	started <- nil
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, address, ok := strings.Cut(lines.Text(), "listening on "+p.scheme()); ok {
			p.address = strings.TrimSpace(address)
			close(bound)
			break
		}
	}
	_, _ = io.Copy(io.Discard, out) // it ends with the process
	p.err = cmd.Wait()
	close(done)
}

// Ready returns when the launched server is ready to serve. It returns an error if it is not ready within ctx. A server
// that replays a long journal listens before it is ready.
func (p *Process) Ready(ctx context.Context) error {
	select {
	case <-p.bound:
		p.Listen = p.address
	case <-p.done:
		return p.endedEarly()
	case <-ctx.Done():
		return ctx.Err()
	}
	client := http.DefaultClient
	if p.TLS != nil {
		transport := &http.Transport{TLSClientConfig: p.TLS}
		defer transport.CloseIdleConnections()
		client = &http.Client{Transport: transport}
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := client.Do(req); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.done:
			return p.endedEarly()
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// endedEarly returns the error of a server that has ended before it was ready.
func (p *Process) endedEarly() error {
	if p.err == nil {
		return errors.New("the server ended before it was ready, with exit code 0")
	}
	return fmt.Errorf("the server ended before it was ready: %w", p.err)
}

// Done returns a channel that is closed when the process has ended, for any reason. Err then returns how it ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended: nil for exit code 0, otherwise an *exec.ExitError. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Signal sends a signal, and does not wait for its effect. It returns os.ErrProcessDone if no process runs.
func (p *Process) Signal(signal syscall.Signal) error {
	if p.cmd == nil {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(signal)
}

// Kill ends the server with SIGKILL, and waits for its end.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL) }

// Stop ends the server with SIGTERM, and waits for its end, however long that takes.
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
		return nil // it ended as intended
	}
	return p.err
}
