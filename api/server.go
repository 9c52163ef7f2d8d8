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
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"
)

// Options are how a server is made. Engine and Queries must be given; the zero value of the rest works.
type Options struct {
	Engine   Engine
	Queries  Queries // of the state of Engine
	Defaults Defaults
	// Hosts are the names, beside localhost and every IP address, that a request's Host may have. *.example.com allows
	// all names below, and * every name.
	Hosts []string
	// RequireClaimID refuses tickles, completions and releases that do not name the claim.
	RequireClaimID bool
	// GetSwitches serves GET /start, /stop and /quit; see getSwitches.
	GetSwitches bool
	Log         zerolog.Logger
	Build       Version
	// MaxConnections may be open at once; 0: defaultMaxConnections.
	MaxConnections int
	// Quit ends the process gracefully on a request to /quit; nil: such requests are refused.
	Quit func()
}

// Server answers the HTTP API.
type Server struct {
	engine   backend
	defaults Defaults
	log      zerolog.Logger
	build    Version
	quitting func()

	echo     *echo.Echo
	hosts    allowedHosts
	fenced   bool                // a request of a runner must name its claim
	reserved map[string]bool     // client names that would hide a route
	literal  map[string][]string // methods of each path without parameters
	metrics  *metrics

	limits
	listening atomic.Pointer[listener] // nil before Run

	draining context.Context // done when the server stops taking its time
	drain    context.CancelFunc
}

// limits are how much requests may take.
type limits struct {
	bulk, control                *budget // of request bodies
	documents, handouts, changes *budget // of answers
	parked                       *budget // of results that are answered when a claim has waited
	compressors                  *budget
	pages                        turns // of lists
	bodies                       bodyRules
	maxConnections               int
}

func newLimits(maxConnections int) limits {
	l := limits{
		bulk: newBudget(bulkBudgetBytes), control: newBudget(controlBudgetBytes),
		documents: newBudget(documentsBudgetBytes), handouts: newBudget(handoutsBudgetBytes), changes: newBudget(changesBudgetBytes),
		parked: newBudget(parkedBudgetBytes), compressors: newBudget(compressorsBudgetBytes), pages: newTurns(),
		maxConnections: cmp.Or(maxConnections, defaultMaxConnections),
	}
	l.bodies = newBodyRules(l.bulk, l.control)
	return l
}

// New returns a server that is not listening yet; see Handler and Run.
func New(o Options) (*Server, error) {
	return newServer(o, struct {
		Engine
		Queries
	}{o.Engine, o.Queries})
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
		engine: engine, defaults: defaults, log: o.Log, build: o.Build, quitting: o.Quit, echo: echo.New(), hosts: hosts, fenced: o.RequireClaimID,
		limits: newLimits(o.MaxConnections),
	}
	s.draining, s.drain = context.WithCancel(context.Background())
	routes := withHeads(s.routes())
	if o.GetSwitches {
		routes = append(routes, s.getSwitches()...)
	}
	s.reserved, s.literal, s.metrics = reservedNames(routes), literalPaths(routes), newMetrics(s, routes)
	s.echo.Pre(oneSpelling)
	s.echo.Use(s.around)
	for _, r := range routes {
		handle := strictRequest(&r, r.handle)
		if r.method == http.MethodGet || r.method == http.MethodHead {
			handle = s.compressed(handle)
		}
		s.echo.Add(r.method, r.path, handle)
	}
	return s, nil
}

// Handler serves the API, for a listener of the caller's own.
func (s *Server) Handler() http.Handler { return s.echo }

const (
	// A connection that sends no request for this long is not one of ours: slow links need a fraction of it.
	readHeaderTimeout = 20 * time.Second
	// Clients give up idle connections after 90 s, as net/http's own does; closing ours later means that they never
	// meet one that is just being closed. An idle connection costs about 10 KB, so that thousands may wait.
	idleTimeout = 3 * time.Minute
	// Names, ids and numbers fit into a fraction of it; the default of 1 MiB would be what every connection may pin.
	maxHeaderBytes = 64 << 10
)

// Run serves on l until ctx is done, then stops: parked claims are answered, requests under way get up to drain to end,
// those that do not are cut off. It returns when no handler runs any more, so that the engine may stop.
func (s *Server) Run(ctx context.Context, l net.Listener, drain time.Duration) error {
	conns := newListener(l, s.maxConnections)
	s.listening.Store(conns)
	server := &http.Server{
		Handler:                      s.echo,
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // OPTIONS * is refused like any other path that is not there
		ErrorLog:                     stdlog.New(serverLog{s.log}, "", 0),
		ConnState:                    conns.watch,
		ConnContext:                  withConnection,
	}
	server.RegisterOnShutdown(conns.closeSilent)
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
		s.log.Warn().Dur("drain_ms", drain).Msg("requests that did not end in time are cut off")
		err = server.Close()
	}
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return nil
}

// connections returns how many are open, and how many were closed for others.
func (s *Server) connections() (open int, evicted int64) {
	if l := s.listening.Load(); l != nil {
		return l.connections()
	}
	return 0, 0
}

// serverLog has net/http's complaints, mostly about clients, in the log.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(text []byte) (int, error) {
	l.log.Warn().Msg(strings.TrimSpace(string(text)))
	return len(text), nil
}
