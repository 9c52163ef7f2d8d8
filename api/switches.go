package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

type switcher interface {
	Switch(ctx context.Context, s job.Switch) (store.Switched, ingest.Receipt, error)
}

// setStopped answers /start and /stop, which turn all handing out of jobs on and off.
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
		return answerDocument(c, http.StatusOK, struct {
			Stopped bool `json:"stopped"`
		}{switched.Stopped})
	}
}

// forwarded are the headers by which a proxy says that it passes on a request of somebody else.
var forwarded = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// quit answers /quit, which ends the process as a signal does. It is refused unless the server was started with
// --allow-quit and the client is on this machine. The connection must come from loopback; and no header may say that a
// proxy on this machine passed the request on.
func (s *Server) quit(c echo.Context) error {
	if s.quitting == nil {
		return &problem{status: http.StatusForbidden, code: "quit_disabled",
			detail: "this server does not end by request; send it SIGTERM, or start it with --allow-quit"}
	}
	r := c.Request()
	if !isLoopback(r.RemoteAddr) {
		return &problem{status: http.StatusForbidden, code: "forbidden_peer", detail: "only a client on the same machine may end the server"}
	}
	for _, name := range forwarded {
		if len(r.Header[name]) > 0 {
			return &problem{status: http.StatusForbidden, code: "forbidden_peer",
				detail: "only a client on the same machine may end the server, and this request came through a proxy: it has the header " + name}
		}
	}
	if err := s.noBody(c); err != nil {
		return err
	}
	err := answer(c, http.StatusOK, mimeText, []byte("Quit.\n"))
	s.log.Info().Str("remote", r.RemoteAddr).Msg("asked to quit")
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
