package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/blob"
)

// Options configure a server. Engine and Queries are required. The zero values of the other fields are useful defaults.
type Options struct {
	Engine   Engine
	Queries  Queries      // reads the state of Engine
	Blobs    *blob.Keeper // nil: the server stores no blobs
	Defaults Defaults
	// Hosts are the names that a request's Host can have in addition to localhost and any IP address. *.example.com
	// allows all names below example.com, and * allows any name.
	Hosts []string
	// RequireClaimID makes the server refuse tickles, completions and releases without a claim_id.
	RequireClaimID bool
	// GetSwitches serves GET /start, /stop and /quit; see getSwitches.
	GetSwitches bool
	Log         zerolog.Logger
	Build       Version
	// MaxConnections is the largest number of open connections. 0 means defaultMaxConnections.
	MaxConnections int
	// StreamHeartbeat is the time between two pings of a stream. 0 means 5 s.
	StreamHeartbeat time.Duration
	// OnLostFailures returns the number of lost runners for which the server's hook failed. Nil means that there is no
	// hook.
	OnLostFailures func() uint64
	// Spans returns counts of the spans of runs: exported, dropped and failed. Nil means that no traces are exported.
	Spans func() SpanCounts
	// Quit is called for a request to /quit, and must shut the process down. If it is nil, the server refuses the
	// request.
	Quit func()
}

// Server answers the HTTP API.
type Server struct {
	engine   backend
	blobs    *blob.Keeper // nil: none
	defaults Defaults
	log      zerolog.Logger
	build    Version
	quitting func()
	// onLostFailures and spans are copied from the options.
	onLostFailures func() uint64
	spans          func() SpanCounts

	echo     *echo.Echo
	hosts    allowedHosts
	fenced   bool                // runners must send the claim_id
	reserved map[string]bool     // names that no client can have, because paths begin with them
	literal  map[string][]string // methods of each path without parameters
	metrics  *metrics

	limits
	streams       streams
	logs          jobLogs
	resultReaders atomic.Int64             // requests that follow results
	listening     atomic.Pointer[listener] // nil before Run

	backupPatience time.Duration // defaultBackupPatience; tests set less

	draining context.Context // done when the shutdown begins
	drain    context.CancelFunc
}

// limits bounds the memory, processors and connections that requests use.
type limits struct {
	bulk, control                         *budget // for request bodies
	documents, handouts, changes, scrapes *budget // for answers
	parked                                *budget // for results of completions whose claim waits
	uploads, downloads                    *budget // for bodies and answers that are longer than memory
	manifests                             *budget // for the files of filesets
	compressors                           *budget
	pages                                 turns // to make pages of lists
	bodies                                bodyRules
	maxConnections                        int
}

func newLimits(maxConnections int) limits {
	l := limits{
		bulk: newBudget(bulkBudgetBytes), control: newBudget(controlBudgetBytes),
		documents: newBudget(documentsBudgetBytes), handouts: newBudget(handoutsBudgetBytes), changes: newBudget(changesBudgetBytes),
		parked: newBudget(parkedBudgetBytes), scrapes: newBudget(scrapesBudgetBytes), uploads: newBudget(streamsBudgetBytes), downloads: newBudget(streamsBudgetBytes), manifests: newBudget(manifestsBudgetBytes), compressors: newBudget(compressorsBudgetBytes), pages: newTurns(),
		maxConnections: cmp.Or(maxConnections, defaultMaxConnections),
	}
	l.bodies = newBodyRules(l.bulk, l.control, l.manifests)
	return l
}

// New returns a server. Use Run to serve a listener, or Handler.
func New(o Options) (*Server, error) {
	s, err := newServer(o, struct {
		Engine
		Queries
	}{o.Engine, o.Queries})
	if err == nil {
		o.Engine.WhenLost(s.lose)
	}
	return s, err
}

func newServer(o Options, engine backend) (*Server, error) {
	defaults, err := o.Defaults.filled()
	if err != nil {
		return nil, fmt.Errorf("default attributes: %w", err)
	}
	hosts, err := configuredHosts(o.Hosts)
	if err != nil {
		return nil, err
	}
	s := &Server{
		engine: engine, blobs: o.Blobs, defaults: defaults, log: o.Log, build: o.Build, quitting: o.Quit, onLostFailures: o.OnLostFailures, spans: o.Spans, echo: echo.New(), hosts: hosts, fenced: o.RequireClaimID,
		limits: newLimits(o.MaxConnections), backupPatience: defaultBackupPatience,
	}
	s.logs.Logs = joblog.New()
	s.streams.init(o.StreamHeartbeat, s.maxConnections)
	s.draining, s.drain = context.WithCancel(context.Background())
	s.streams.finishers.init(s.draining.Done())
	routes := withHeads(s.routes())
	if o.GetSwitches {
		routes = append(routes, s.getSwitches()...)
	}
	s.reserved, s.literal, s.metrics = reservedNames(routes), literalPaths(routes), newMetrics(s, routes)
	s.echo.Pre(oneSpelling)
	s.echo.Use(s.around)
	for _, r := range routes {
		handle := strictRequest(&r, r.handle)
		if (r.method == http.MethodGet || r.method == http.MethodHead) && r.path != "/stream" && r.path != "/backup" && !strings.HasPrefix(r.path, "/blob") && r.path != "/filesets/:name" && r.path != "/jobs/:id/log" && r.path != "/batches/:id/results" {
			handle = s.compressed(handle)
		}
		s.echo.Add(r.method, r.path, handle)
	}
	return s, nil
}

// Handler returns the handler of the API, for callers that do not use Run.
func (s *Server) Handler() http.Handler { return s.echo }

const (
	// readHeaderTimeout is the longest time in which a client may send the head of a request. Slow connections need a
	// fraction of it.
	readHeaderTimeout = 20 * time.Second
	// idleTimeout is longer than the 90 s after which clients such as net/http close idle connections, so that a client
	// does not send a request just when the server closes the connection. An idle connection costs about 10 KB, so
	// thousands of them are no problem.
	idleTimeout = 3 * time.Minute
	// maxHeaderBytes is far more than the names, ids and numbers in a head need. With the default of 1 MiB, each
	// connection could take that much memory.
	maxHeaderBytes = 64 << 10
)

// Run serves requests on l until ctx is done. Then it answers parked claims, waits at most drain for the remaining
// requests to end, and closes the connections of requests that have not ended by then. After Run has returned without a
// forced close, no handler runs, and the caller can stop the engine.
func (s *Server) Run(ctx context.Context, l net.Listener, drain time.Duration) error {
	conns := newListener(l, s.maxConnections)
	conns.evict = s.streams.evict
	s.listening.Store(conns)
	server := &http.Server{
		Handler:                      s.echo,
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // the server refuses OPTIONS * like any unknown path
		ErrorLog:                     stdlog.New(serverLog{s.log}, "", 0),
		ConnState:                    conns.watch,
		ConnContext:                  withConnection,
	}
	server.RegisterOnShutdown(conns.closeSilent)
	tidying, stopTidying := context.WithCancel(context.Background())
	var tidy sync.WaitGroup
	tidy.Go(func() { s.logs.Run(tidying) })
	defer tidy.Wait()
	defer stopTidying()
	served := make(chan error, 1)
	go func() { served <- server.Serve(conns) }()
	select {
	case err := <-served:
		s.drain()
		return fmt.Errorf("serve %s: %w", l.Addr(), errors.Join(err, server.Close()))
	case <-ctx.Done():
	}
	s.drain()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn().Dur("drain_ms", drain).Msg("requests did not end in time; closing their connections")
		err = server.Close()
	}
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return s.streams.wait(limit)
}

// connections returns the number of open connections, and the number of connections that the server has closed to
// accept others.
func (s *Server) connections() (open int, evicted int64) {
	if l := s.listening.Load(); l != nil {
		return l.connections()
	}
	return 0, 0
}

// serverLog logs the errors that net/http reports. Most of them are errors of clients.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(text []byte) (int, error) {
	l.log.Warn().Msg(strings.TrimSpace(string(text)))
	return len(text), nil
}
