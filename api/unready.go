package api

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daybookq/daybook/api/internal/web"
)

// ServeUnready serves l until ctx is done, for a server that has no state yet: it answers /healthz, and refuses all other
// requests with the reason.
func ServeUnready(ctx context.Context, l net.Listener, o Options, reason error) error {
	s, err := web.New(web.Options{
		Log: o.Log, Hosts: o.Hosts, MaxConnections: o.MaxConnections, Registry: prometheus.NewRegistry(),
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
