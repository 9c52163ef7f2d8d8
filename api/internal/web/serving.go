package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/job"
)

// Options configure a server. ProblemOf and Registry are required.
type Options struct {
	Log zerolog.Logger
	// Hosts are the names that a request's Host can have in addition to localhost and any IP address. *.example.com
	// allows all names below example.com, and * allows any name.
	Hosts []string
	// MaxConnections is the largest number of open connections. 0 means DefaultMaxConnections.
	MaxConnections int
	TLS            *TLS // nil: the server speaks HTTP without TLS
	// ProblemOf returns the problem for an error of a handler.
	ProblemOf   func(err error) *Problem
	Compressors *Lane // for the compressors of answers
	// Registry gets the metrics of requests.
	Registry *prometheus.Registry
	// Origins are the origins of other sites whose pages may use the server with keys.
	Origins []string
	// Authorize, if not nil, returns the key that credentials stand for, which must have one of the roles, or nil if no key is
	// needed.
	Authorize func(c Credentials, roles job.Roles) (*job.Key, error)
	// Confine refuses a request about something that a key with a scope is not for.
	Confine func(c echo.Context, about About, key *job.Key) error
	// Refused, if not nil, returns the refusal of a request from an address for which Authorize has returned err.
	Refused func(peer netip.Addr, c *Credentials, err error) error
	// Admit refuses a request of a key that has used up its rates, unless it is kept.
	Admit func(r *http.Request, key *job.Key, kept bool) error
	// Spell, if not nil, writes a URL in its canonical form before the router sees it.
	Spell func(u *url.URL)
	// SecretOf, if not nil, returns the secret in a path, and whether the path must not be logged.
	SecretOf func(path string) (secret string, hidden bool)
	// Evict, if not nil, closes a hijacked connection that is not in use, and reports whether there was one.
	Evict func() bool
	// WaitHijacked, if not nil, waits until the handlers of hijacked connections have ended. When ctx is done, it closes
	// their connections.
	WaitHijacked func(ctx context.Context) error
}

// Server serves routes on connections. It refuses requests that no handler should see, turns the errors of handlers
// into problem documents, and writes metrics and the access log.
type Server struct {
	Options
	echo       *echo.Echo
	hosts      allowedHosts
	origins    allowedOrigins
	literal    map[string][]string // methods of each path without parameters
	reserved   map[string]bool     // literal first segments of paths
	Metrics    *RequestMetrics
	listening  atomic.Pointer[listener] // nil before Run
	handshakes *handshakes              // nil: without TLS
	waits      waits
	routes     map[routeKey]*Route
	// SlowBody is the time after which the key of a request is checked again when its body has arrived.
	SlowBody time.Duration

	Draining context.Context // done when the shutdown begins
	Drain    context.CancelFunc
}

// New returns a server without routes. It fails if the name of a host, or an origin, is malformed.
func New(o Options) (*Server, error) {
	hosts, err := configuredHosts(o.Hosts)
	if err != nil {
		return nil, err
	}
	origins, err := configuredOrigins(o.Origins)
	if err != nil {
		return nil, err
	}
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	s := &Server{SlowBody: Recheck, Options: o, echo: echo.New(), hosts: hosts, origins: origins, Metrics: NewRequestMetrics(o.Registry), handshakes: newHandshakes(o.TLS, o.Log)}
	s.Draining, s.Drain = context.WithCancel(context.Background())
	s.echo.Pre(s.oneSpelling)
	s.echo.Use(s.around)
	return s, nil
}

// Serve adds the routes.
func (s *Server) Serve(routes []Route) {
	s.literal, s.reserved, s.routes = literalPaths(routes), reservedNames(routes), map[routeKey]*Route{}
	for i := range routes {
		r := &routes[i]
		s.routes[routeKey{r.Method, r.Path}] = r
		s.Metrics.routes[routeKey{r.Method, r.Path}] = s.Metrics.Of(r.Method, r.Path, r.Hot)
		handle := strictRequest(r, s.confined(r))
		if r.Compressed {
			handle = s.Compressed(handle)
		}
		s.echo.Add(r.Method, r.Path, s.guarded(r, handle))
	}
}

// Route is a method and a path, and its handler.
type Route struct {
	Method, Path string
	Handle       echo.HandlerFunc
	Hot          bool // called so often that successes are logged only at debug level
	Keyed        bool // supports an Idempotency-Key and session numbers
	Compressed   bool // long answers are compressed
	Access       Access
	Query        string // the names of the query parameters; see ParseQuery
}

// literalPaths returns the methods of each path without parameters. The guard uses them to answer 405 for other
// methods. The router alone would match GET /jobs/create with /jobs/:id, as a job with the id "create".
func literalPaths(routes []Route) map[string][]string {
	paths := map[string][]string{}
	for i := range routes {
		if r := &routes[i]; !strings.Contains(r.Path, ":") {
			paths[r.Path] = append(paths[r.Path], r.Method)
		}
	}
	return paths
}

// Coming are the first segments of paths that this server does not have yet. No client may take them.
var Coming = []string{
	"audit", "calendars", "cluster", "config", "events", "failures", "keys", "login", "logout", "marks", "schedules", "series", "signals", "ui",
	"webhooks", "whoami",
}

// reservedNames returns the literal first segments of all paths, and of those that are coming.
func reservedNames(routes []Route) map[string]bool {
	names := map[string]bool{}
	for _, name := range Coming {
		names[name] = true
	}
	for i := range routes {
		if first, _, _ := strings.Cut(routes[i].Path[1:], "/"); first != "" && first[0] != ':' {
			names[first] = true
		}
	}
	return names
}

// CheckClient refuses the name of a client with which a path of the server begins, or will begin, so that /{client}/job/{type}/add is
// unambiguous.
func (s *Server) CheckClient(client string) error {
	if s.reserved[client] {
		return BadRequest("client", fmt.Sprintf("client must not be %q, because paths of this server begin with it", client))
	}
	return nil
}

// Handler returns the handler of all routes, for callers that do not use Run.
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

// Run serves requests on l until ctx is done. Then it ends draining, waits at most drain for the remaining requests to
// end, and closes the connections of requests that have not ended by then.
func (s *Server) Run(ctx context.Context, l net.Listener, drain time.Duration) error {
	conns := newListener(l, s.MaxConnections)
	conns.evict, conns.secure = s.Evict, s.handshakes
	s.listening.Store(conns)
	server := &http.Server{
		Handler:                      s.echo,
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true, // the server refuses OPTIONS * like any unknown path
		ErrorLog:                     stdlog.New(serverLog{s.Log}, "", 0),
		ConnState:                    conns.watch,
		ConnContext:                  s.withConnection,
	}
	server.RegisterOnShutdown(conns.closeSilent)
	served := make(chan error, 1)
	go func() { served <- server.Serve(conns) }()
	select {
	case err := <-served:
		s.Drain()
		return fmt.Errorf("serve %s: %w", l.Addr(), errors.Join(err, server.Close()))
	case <-ctx.Done():
	}
	s.Drain()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(limit)
	if errors.Is(err, context.DeadlineExceeded) {
		s.Log.Warn().Dur("drain_ms", drain).Msg("requests did not end in time; closing their connections")
		err = server.Close()
	}
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	if s.WaitHijacked == nil {
		return nil
	}
	return s.WaitHijacked(limit)
}

// Connections returns the number of open connections, and the number of connections that the server has closed to
// accept others.
func (s *Server) Connections() (open int, evicted int64) {
	if l := s.listening.Load(); l != nil {
		return l.Connections()
	}
	return 0, 0
}

// serverLog logs the errors that net/http reports. Most of them are errors of clients.
type serverLog struct{ log zerolog.Logger }

func (l serverLog) Write(text []byte) (int, error) {
	l.log.Warn().Msg(strings.TrimSpace(string(text)))
	return len(text), nil
}
