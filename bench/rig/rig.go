// Package rig runs the real server binary for benchmarks, the demo and crash tests: it builds or finds the binary, starts it on a
// free loopback port with a data directory, kills it, and starts it again.
package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Binary returns the path of the server binary: DAYBOOK_BINARY where set, else one built into dir.
func Binary(dir string) (string, error) {
	if path := os.Getenv("DAYBOOK_BINARY"); path != "" {
		return path, nil
	}
	path := filepath.Join(dir, "daybook")
	build := exec.Command("go", "build", "-o", path, "github.com/daybookq/daybook/cmd/daybook")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build daybook: %w\n%s", err, out)
	}
	return path, nil
}

// Server is a server process.
type Server struct {
	Binary string
	Data   string
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
func (s *Server) URL() string { return "http://" + s.Listen }

// Pid is the process id of the running server.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Start starts the server and returns once it is ready to serve, or with the reason why it is not within ctx.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	if err := s.Ready(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return nil
}

// Launch starts the process and returns at once.
func (s *Server) Launch() error {
	if s.Listen == "" {
		s.Listen = "127.0.0.1:0"
	}
	args := append([]string{"serve", "--listen", s.Listen, "--data", s.Data, "--init"}, s.Args...)
	cmd := exec.Command(s.Binary, args...)
	cmd.Stderr = s.Log
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "DAYBOOK_") }) // settings are Args
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.Binary, err)
	}
	s.cmd, s.bound, s.done = cmd, make(chan string, 1), make(chan struct{})
	bound, done := s.bound, s.done
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, url, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
				select {
				case bound <- strings.TrimSpace(url):
				default:
				}
			}
		}
		s.err = cmd.Wait()
		close(done)
	}()
	return nil
}

// Ready returns once the launched server is ready to serve, or with the reason why it is not within ctx. A start that replays much is up
// before it is ready.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case s.Listen = <-s.bound:
	case <-s.done:
		return fmt.Errorf("the server ended at once: %w", s.err)
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/readyz", nil)
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
		case <-s.done:
			return fmt.Errorf("the server ended before it was ready: %w", s.err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Done is closed when the launched process has ended, by whatever cause; Err then says how.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is how the process ended: nil with exit code 0, *exec.ExitError otherwise. It waits for the end.
func (s *Server) Err() error {
	<-s.done
	return s.err
}

// Signal sends a signal and does not wait for what it does.
func (s *Server) Signal(signal syscall.Signal) error { return s.cmd.Process.Signal(signal) }

// Freeze stops the process as SIGSTOP does, and returns once the kernel says that all of it stands still. Thaw has it go on.
func (s *Server) Freeze() error {
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
		if err != nil {
			return err
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(rest, "T") {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// Thaw has a process that was frozen go on.
func (s *Server) Thaw() error { return s.Signal(syscall.SIGCONT) }

// Kill ends the server with SIGKILL and waits for it.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// Stop ends the server with SIGTERM and waits for it.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

func (s *Server) end(signal syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.done
	s.cmd = nil
	if signal == syscall.SIGKILL {
		return nil // how it ended is what we did
	}
	return s.err
}

// Resident returns the resident memory of the server in bytes, now and at its highest.
func (s *Server) Resident() (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			now = kb << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			peak = kb << 10
		}
	}
	return now, peak, nil
}
