package opsqueue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"github.com/daybookq/daybook/opsqueue/wire"
)

// Server serves the protocol. It needs a separate listener from Daybook's API.
type Server struct {
	engine      Engine
	state       Queries
	config      Config
	log         *slog.Logger
	instance    string // of this server, part of its runner ids
	cache       aboutCache
	endings     *endings
	longEndings *endings   // endings with long outputs
	cancelling  sync.Mutex // held while a submission is cancelled
	operations  operations
	metrics     *metrics
	bodies      chan struct{}       // holds a value for each body in memory
	replies     *semaphore.Weighted // bytes of replies to reservations
	messages    *semaphore.Weighted // bytes of long messages of consumers

	http    http.Server
	running context.Context // ends with Close
	stop    context.CancelFunc

	consumers sync.WaitGroup
	mu        sync.Mutex
	open      map[*consumer]struct{} // connections that Close ends
	closing   bool                   // Close was called
}

const (
	// maxReplyBytes bounds the replies to reservations in memory at a time.
	maxReplyBytes = 128 << 20
	// maxLongBytes bounds the long messages of consumers in memory at a time. Each counts as wire.MaxMessageBytes.
	maxLongBytes = 4 * wire.MaxMessageBytes
	// maxHeaderBytes bounds the header of a request.
	maxHeaderBytes = 64 << 10
	// A request must arrive within readTimeout, and its response must be sent within writeTimeout. Consumers have
	// heartbeats instead.
	readTimeout  = 30 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 5 * time.Minute
)

// New returns a server. It serves nothing until Serve is called.
func New(engine Engine, state Queries, c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.ConnID == nil {
		c.ConnID = newConnID
	}
	instance := rand.Text()[:8]
	if c.Origin != 0 {
		instance = instanceOf(c.Origin)
	}
	c.FillWait = cmp.Or(c.FillWait, fillWait)
	s := &Server{
		engine: engine, state: state, config: c, log: c.Log, instance: instance,
		bodies: make(chan struct{}, maxBodies), replies: semaphore.NewWeighted(maxReplyBytes), messages: semaphore.NewWeighted(maxLongBytes), open: map[*consumer]struct{}{},
	}
	s.running, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	s.endings, s.longEndings = newEndings(s), newEndings(s)
	s.http = http.Server{
		Handler: s.handler(), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:    slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve serves connections until Close, and then returns nil. Consumers that held chunks before the server was started
// may reconnect. After one heartbeat interval, but at least returnAfter, Serve returns the chunks of consumers that did
// not. In a cluster, Returns at the leader returns them.
func (s *Server) Serve(l net.Listener) error {
	var ending sync.WaitGroup
	ending.Go(s.endings.run)
	ending.Go(s.longEndings.run)
	ending.Go(s.cleanUp)
	ending.Go(s.watchKey)
	err := s.http.Serve(netutil.LimitListener(NewListener(l), cmp.Or(s.config.MaxConnections, DefaultMaxConnections)))
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
		<-s.running.Done() // Close waits for running requests
	}
	s.stop()
	s.consumers.Wait()
	s.endings.close()
	s.longEndings.close()
	ending.Wait()
	return err
}

// Close stops accepting connections and ends the connections of consumers. Running requests of producers, and reports of
// consumers that have arrived, have until ctx ends. Chunks that consumers hold stay reserved, so that the consumers can
// report them to the next server.
func (s *Server) Close(ctx context.Context) error {
	s.endings.until(ctx)
	s.longEndings.until(ctx)
	var closing sync.WaitGroup
	s.mu.Lock()
	s.closing = true
	for c := range s.open {
		closing.Go(c.closeGracefully)
	}
	s.mu.Unlock()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	closing.Wait()
	s.stop()
	s.consumers.Wait()
	return err
}

// Running returns a context that ends with Close.
func (s *Server) Running() context.Context { return s.running }

// admit counts a consumer's connection. It returns false if the server is stopping.
func (s *Server) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.running.Err() != nil {
		return false
	}
	s.consumers.Add(1)
	return true
}

// isClosing reports whether Close was called.
func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// opened registers an admitted connection, now a WebSocket, for Close.
func (s *Server) opened(c *consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
	if s.closing {
		go c.closeGracefully()
	}
}

// leave undoes admit and opened.
func (s *Server) leave(c *consumer) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	s.consumers.Done()
}

func (s *Server) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
