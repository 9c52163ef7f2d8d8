// Package daybooktest starts a Daybook server for a test: the real binary, on a free loopback port. Its data is in a
// directory that is deleted with the test.
//
// Binary documents where the binary is found. To build the server with the tests of a module, add it as a tool:
//
//	go get -tool github.com/daybookq/daybook/cmd/daybook
package daybooktest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/daybookq/daybook/client"
)

// TB is the part of testing.TB that this package uses. Examples can implement it.
type TB interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Server is a running server.
type Server struct {
	URL    string
	Client *client.Client

	t       TB
	process *Process
	log     bytes.Buffer // the log of the process; read it after the process has ended
	running bool
}

// readyIn is how long a start may take. An empty or small journal is replayed within milliseconds, and within seconds
// on a busy machine.
const readyIn = time.Minute

// Start starts a server, and stops it when the test ends. args are additional flags of `daybook serve`.
func Start(t TB, args ...string) *Server {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatalf("daybooktest: %v", err)
	}
	s := &Server{t: t}
	s.process = &Process{Binary: binary, Data: t.TempDir(), Args: append([]string{"--log-level", "warn"}, args...), Log: &s.log}
	s.start()
	s.URL = s.process.URL()
	s.Client = client.New(s.URL, client.Options{})
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyIn)
	defer cancel()
	if err := s.process.Start(ctx); err != nil {
		s.t.Fatalf("daybooktest: %v\n%s", err, s.log.Bytes())
	}
	s.running = true
}

// stopIn is how long a stop may take before the server counts as hanging.
const stopIn = time.Minute

// Stop stops the server as SIGTERM does. It may be called more than once.
func (s *Server) Stop() {
	s.t.Helper()
	if !s.running {
		return
	}
	s.running = false
	if err := s.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("daybooktest: stop: %v", err)
	}
	select {
	case <-s.process.Done():
		if err := s.process.Stop(); err != nil { // it has ended already; Stop returns how
			s.t.Errorf("daybooktest: stop: %v\n%s", err, s.log.Bytes())
		}
	case <-time.After(stopIn):
		err := s.process.Kill()
		s.t.Errorf("daybooktest: the server did not stop within %v, and was killed (%v)\n%s", stopIn, err, s.log.Bytes())
	}
}

// Kill ends the server as a crash would. Nothing that was acknowledged is lost.
func (s *Server) Kill() {
	s.t.Helper()
	if !s.running {
		return
	}
	s.running = false
	select {
	case <-s.process.Done():
		s.t.Errorf("daybooktest: the server had ended by itself: %v\n%s", s.process.Err(), s.log.Bytes())
	default:
	}
	if err := s.process.Kill(); err != nil {
		s.t.Errorf("daybooktest: kill: %v", err)
	}
}

// Restart stops the server if it runs, and starts it again with the same data at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}
