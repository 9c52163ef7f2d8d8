package api

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/ingest"
)

// around wraps every request, including one that matches no route. It calls the guard and the handler, answers a
// refusal, and writes metrics and the access log.
func (s *Server) around(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := s.handle(c, next)
		var p *problem
		if err != nil {
			p = problemOf(err)
			if p.status == http.StatusMethodNotAllowed && p.allow == "" { // from the router
				p.allow, _ = c.Get(echo.ContextKeyHeaderAllow).(string)
			}
			answerProblem(c, p)
		}
		took := time.Since(start)
		m := s.metrics.of(c)
		status := c.Response().Status
		if p != nil && p.status == statusClientGone {
			status = statusClientGone
		}
		m.observe(status, took)
		s.logAccess(c, access{m, status, took, p, err})
		return nil
	}
}

// handle runs the guard and the handler. It turns a panic into an error with the stack.
func (s *Server) handle(c echo.Context, next echo.HandlerFunc) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if e, ok := r.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(r) // net/http then closes the connection
			}
			err = panicked(r)
		}
	}()
	if conn := connectionOf(c.Request()); conn != nil {
		if err := conn.begin(c); err != nil {
			return err
		}
	}
	if err := s.guard(c); err != nil {
		return err
	}
	return next(c)
}

// panicked returns the error of a panic, with the stack.
func panicked(r any) error { return fmt.Errorf("%w: %v\n%s", errPanic, r, debug.Stack()) }

var errPanic = errors.New("panic")

func (m *metrics) of(c echo.Context) *routeMetrics {
	if r := m.routes[routeKey{c.Request().Method, c.Path()}]; r != nil {
		return r
	}
	return m.unrouted
}

// access is the content of a request's log line.
type access struct {
	route   *routeMetrics
	status  int
	took    time.Duration
	problem *problem // nil if the request was not refused
	err     error    // the cause of the problem
}

// logAccess writes one line per request. Successes of hot routes are logged at debug level, other answers at info,
// failures of the server as warnings or errors with their cause. A path contains only names and ids. A path with a
// secret is not logged, and its secret is removed from the cause. Queries and bodies are never logged.
func (s *Server) logAccess(c echo.Context, a access) {
	level := zerolog.InfoLevel
	switch {
	case c.Path() == "/readyz": // probes repeat it until the server is ready
		level = zerolog.DebugLevel
	case a.problem != nil && a.problem.status == http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	case a.problem != nil && startsOrStops(a.problem, a.err):
	case a.status >= http.StatusInternalServerError:
		level = zerolog.WarnLevel
	case a.route.hot && a.status < http.StatusBadRequest, a.status == statusClientGone:
		level = zerolog.DebugLevel
	}
	e := s.log.WithLevel(level)
	if level < s.log.GetLevel() || level < zerolog.GlobalLevel() || e == nil {
		return
	}
	r := c.Request()
	secret, hidden := secretOf(r.URL.Path)
	e = e.Str("method", r.Method).Str("route", c.Path())
	if !hidden {
		e = e.Str("path", r.URL.Path)
	}
	e = e.Int("status", a.status).Dur("took_ms", a.took).Int64("bytes_out", c.Response().Size).Str("remote", r.RemoteAddr)
	if r.ContentLength >= 0 {
		e = e.Int64("bytes_in", r.ContentLength)
	}
	if a.problem != nil {
		e = e.Str("code", a.problem.code)
	}
	if a.err != nil && level >= zerolog.WarnLevel {
		text := a.err.Error()
		if secret != "" { // file errors name the file, which contains the secret
			text = strings.ReplaceAll(text, secret, "(hidden)")
		}
		e = e.Str("error", text)
	}
	e.Msg("request")
}

// startsOrStops reports whether the server refused a request because it is starting or stopping. The log has reported
// that once already.
func startsOrStops(p *problem, err error) bool {
	return p.code == codeShutdown || errors.Is(err, ingest.ErrNotReady)
}

// uploadsPath is the prefix of all paths that contain a secret. An upload's id is the only secret in a path: a client
// that knows it can append and remove. Documents that everybody can read contain the ids of jobs, claims and sessions.
const uploadsPath = "/uploads/"

// secretOf returns the secret in a path, and whether the path must not be logged. It ignores the route, so it also
// hides a path that no route matches. A fileset may have the name uploads.
func secretOf(path string) (secret string, hidden bool) {
	at := strings.Index(path, uploadsPath)
	if at < 0 || strings.HasPrefix(path, "/filesets/") {
		return "", false
	}
	return path[at+len(uploadsPath):], true
}

// logFailure logs why a claim was refused after its outcomes were applied. The answer is then a success, so logAccess
// does not log the cause.
func (s *Server) logFailure(c echo.Context, p *problem, err error) {
	s.log.Warn().Str("route", c.Path()).Str("code", p.code).AnErr("error", err).Msg("claim refused after its outcomes were applied")
}
