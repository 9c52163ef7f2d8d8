package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/store/query"
)

// Server answers the HTTP API.
type Server struct{ *resources }

// New returns a server. Use Run to serve a listener, or Handler.
func New(o Options) (*Server, error) {
	s, err := newServer(o, behind{o.Engine, stateOf{o.Engine.Queries()}})
	if err == nil {
		o.Engine.WhenLost(s.streams.Lose)
	}
	return s, err
}

// behind is an engine with the queries of its state. The engine's own methods come first where both have one of a name.
type behind struct {
	*ingest.Engine
	stateOf
}

type stateOf struct{ *query.Queries }

func newServer(o Options, engine backend.Engine) (*Server, error) {
	s, err := newResources(&o, engine)
	if err != nil {
		return nil, err
	}
	routes := withHeads(s.routes())
	if o.GetSwitches {
		routes = append(routes, s.getSwitches()...)
	}
	if err := checkAccess(routes); err != nil {
		return nil, err
	}
	served := make([]web.Route, len(routes))
	for i, r := range routes {
		served[i] = web.Route{Method: r.method, Path: r.path, Handle: r.handle, Hot: r.hot, Keyed: r.keyed, Access: access[r.id], Query: r.query, Compressed: r.compressed()}
	}
	s.web.Serve(served)
	return &Server{s}, nil
}

// Handler returns the handler of the API, for callers that do not use Run.
func (s *Server) Handler() http.Handler { return s.web.Handler() }

// Run serves requests on l until ctx is done. Then it answers parked claims, waits at most drain for the remaining
// requests to end, and closes the connections of requests that have not ended by then. After Run has returned without a
// forced close, no handler runs, and the caller can stop the engine.
func (s *Server) Run(ctx context.Context, l net.Listener, drain time.Duration) error {
	if s.trusted {
		return errors.New("a server whose requests need no keys does not listen")
	}
	tidying, stopTidying := context.WithCancel(context.Background())
	var tidy sync.WaitGroup
	tidy.Go(func() { s.logs.Run(tidying) })
	tidy.Go(func() { s.endRefused(tidying) })
	defer tidy.Wait()
	defer stopTidying()
	return s.web.Run(ctx, l, drain)
}

// endRefused ends the streams, and the requests that last, whose keys are not good any more, forgets the rates of such keys, and writes
// refused keys to the log, until ctx is done.
func (s *Server) endRefused(ctx context.Context) {
	ticks := time.NewTicker(web.Recheck)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.streams.EndRefused()
			s.web.EndRefused()
			s.refusals.flush()
			s.rates.Tidy()
		}
	}
}

// ServeUnready serves l until ctx is done, for a server that has no state yet: it answers /healthz, and refuses all other
// requests with the reason.
func ServeUnready(ctx context.Context, l net.Listener, o Options, reason error) error {
	s, err := web.New(web.Options{
		Log: o.Log, Hosts: o.Hosts, MaxConnections: o.MaxConnections, TLS: o.TLS, Registry: prometheus.NewRegistry(),
		ProblemOf: func(error) *web.Problem {
			return &web.Problem{Status: http.StatusServiceUnavailable, Code: "not_ready", Detail: reason.Error(), Reported: true}
		},
	})
	if err != nil {
		return err
	}
	s.Serve([]web.Route{{Method: http.MethodGet, Path: "/healthz", Hot: true, Handle: func(c echo.Context) error {
		return c.JSON(http.StatusOK, aliveDocument{"ok"})
	}}})
	return s.Run(ctx, l, time.Second)
}
