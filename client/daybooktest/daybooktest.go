// Package daybooktest starts a Daybook server for a test: the real engine and API, in the test's process, on a free
// loopback port, with its data in a directory that goes with the test.
package daybooktest

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api"
	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest"
)

// TB is the part of testing.TB that is needed, so that examples can bring their own.
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

	t    TB
	data string
	addr string
	stop func() error
}

// Start starts a server, which stops when the test ends.
func Start(t TB) *Server {
	t.Helper()
	s := &Server{t: t, data: t.TempDir(), addr: "127.0.0.1:0"}
	s.start()
	s.Client = client.New(s.URL, client.Options{})
	t.Cleanup(s.Stop)
	return s
}

// drain is how long requests under way may take when the server stops.
const drain = 5 * time.Second

func (s *Server) start() {
	s.t.Helper()
	engine, err := ingest.Open(ingest.Options{Dir: s.data})
	if err != nil {
		s.t.Fatalf("daybooktest: %v", err)
	}
	server, err := api.New(api.Options{Engine: engine, Queries: engine.Queries(), Log: zerolog.Nop()})
	if err != nil {
		s.t.Fatalf("daybooktest: %v", err)
	}
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatalf("daybooktest: %v", err)
	}
	s.addr = l.Addr().String()
	s.URL = "http://" + s.addr
	serving, stopServing := context.WithCancel(context.Background())
	running, stopRunning := context.WithCancel(context.Background())
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- server.Run(serving, l, drain) }()
	go func() { ran <- engine.Run(running) }()
	s.stop = func() error {
		stopServing()
		err := <-served
		stopRunning()
		return errors.Join(err, <-ran)
	}
	for engine.Ready() != nil { // a new or small journal is replayed within milliseconds
		select {
		case err := <-ran:
			s.stop = nil
			s.t.Fatalf("daybooktest: the engine ended at once: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Stop stops the server in order. It may be called more than once.
func (s *Server) Stop() {
	s.t.Helper()
	if s.stop == nil {
		return
	}
	if err := s.stop(); err != nil {
		s.t.Errorf("daybooktest: stop: %v", err)
	}
	s.stop = nil
}

// Restart stops the server and starts it again with the same data at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}
