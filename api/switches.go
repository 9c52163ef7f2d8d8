package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// switches decide whether claims get jobs.
type switches struct{ engine backend.Engine }

func (w switches) routes(r operation.Rules) []route {
	about := func(id, summary string) operation.About {
		return operation.About{ID: id, Tag: "Switches", Summary: summary, Answers: answers{200: "whether handing out is stopped now"}, Refusals: []int{503, 507}}
	}
	return []route{
		cold(r, http.MethodPost, "/start", about("start", "Let claims get jobs again, after POST /stop"), w.start),
		cold(r, http.MethodPost, "/stop", about("stop", "Let claims get no more jobs"), w.stop),
	}
}

// byGet returns the GET forms of the switches.
func (w switches) byGet(r operation.Rules) []route {
	about := func(id, summary string) operation.About {
		return operation.About{
			ID: id, Tag: "Switches", Summary: summary, Text: "This works only on a server that was started with --allow-get-switches. Use POST instead.", Deprecated: true,
			Answers: answers{200: "whether handing out is stopped now"}, Refusals: []int{405, 503, 507},
		}
	}
	return []route{
		cold(r, http.MethodGet, "/start", about("startByGet", "Let claims get jobs again, by GET"), w.start),
		cold(r, http.MethodGet, "/stop", about("stopByGet", "Let claims get no more jobs, by GET"), w.stop),
	}
}

type switchDocument struct {
	Stopped bool `json:"stopped"`
}

func (w switches) start(ctx context.Context, _ *nothing) (changed[switchDocument], error) {
	return w.set(ctx, false)
}

func (w switches) stop(ctx context.Context, _ *nothing) (changed[switchDocument], error) {
	return w.set(ctx, true)
}

func (w switches) set(ctx context.Context, stopped bool) (changed[switchDocument], error) {
	switched, receipt, err := w.engine.Switch(ctx, job.Switch{Stopped: stopped})
	return changedBy(receipt, switchDocument{switched.Stopped}), err
}

// forwarded are the headers that a proxy adds to the requests of its clients.
var forwarded = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// stopper shuts the process down as a signal does.
type stopper struct {
	quit func() // nil: the server refuses it
	log  zerolog.Logger
}

func (s *stopper) about() operation.About {
	return operation.About{
		ID: "quit", Tag: "Switches", Summary: "Shut down the server",
		Text: "This works only on a server that was started with --allow-quit, and only for clients on the same machine. The\n" +
			"server shuts down gracefully, as after SIGTERM.\n",
		Replies: []operation.Reply{{Status: http.StatusOK, Text: "The server shuts down.", Content: map[string]openapi.Shape{web.MIMEText: openapi.Plain(openapi.Const(quitText))}}},
	}
}

const quitText = "Quit.\n"

func (s *stopper) routes(r operation.Rules) []route {
	return []route{written(r, http.MethodPost, "/quit", s.about(), s.stop)}
}

// byGet returns the GET form.
func (s *stopper) byGet(r operation.Rules) []route {
	about := s.about()
	about.ID, about.Summary, about.Text = "quitByGet", "Shut down the server, by GET", "This works only on a server that was started with --allow-get-switches. Use POST instead."
	about.Deprecated, about.Refusals = true, []int{405}
	return []route{written(r, http.MethodGet, "/quit", about, s.stop)}
}

// stop is refused unless the server was started with --allow-quit and the client is on the same machine: the connection
// must come from loopback, and the request must not have a header of a proxy.
func (s *stopper) stop(c echo.Context, _ *nothing) error {
	if s.quit == nil {
		return &web.Problem{Status: http.StatusForbidden, Code: "quit_disabled",
			Detail: "this server was started without --allow-quit, so a request cannot shut it down; send SIGTERM to its process"}
	}
	r := c.Request()
	if !isLoopback(r.RemoteAddr) {
		return &web.Problem{Status: http.StatusForbidden, Code: "forbidden_peer", Detail: "only a client on the same machine can shut down the server"}
	}
	for _, name := range forwarded {
		if len(r.Header[name]) > 0 {
			return &web.Problem{Status: http.StatusForbidden, Code: "forbidden_peer",
				Detail: "only a client on the same machine can shut down the server, and this request came through a proxy: it has the header " + name}
		}
	}
	err := web.Answer(c, http.StatusOK, web.MIMEText, []byte(quitText))
	s.log.Info().Str("remote", r.RemoteAddr).Msg("shutting down because of a request to /quit")
	s.quit()
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
