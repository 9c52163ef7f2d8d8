package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
)

// setStopped answers /start and /stop, which throw the switch over all queues.
func (s *Server) setStopped(stopped bool) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.noBody(c); err != nil {
			return err
		}
		switched, receipt, err := s.engine.Switch(c.Request().Context(), job.Switch{Stopped: stopped})
		if err != nil {
			return err
		}
		setSeq(c, receipt.Seq)
		return answer(c, http.StatusOK, mimeJSON, fmt.Appendf(nil, "{\"stopped\":%t}\n", switched.Stopped))
	}
}

// quit answers /quit, and has the process end as on a signal. Only somebody on this very machine may ask: the address of the connection
// tells, and no header.
func (s *Server) quit(c echo.Context) error {
	if s.quitting == nil {
		return &problem{status: http.StatusForbidden, code: "quit_disabled", detail: "this server does not end by request"}
	}
	if !isLoopback(c.Request().RemoteAddr) {
		return &problem{status: http.StatusForbidden, code: "forbidden_peer", detail: "only a client on the same machine may end the server"}
	}
	if err := s.noBody(c); err != nil {
		return err
	}
	err := answer(c, http.StatusOK, mimeText, []byte("Quit.\n"))
	s.log.Info().Str("remote", c.Request().RemoteAddr).Msg("asked to quit")
	s.quitting()
	return err
}

func isLoopback(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
