package web

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"
)

// around wraps every request, including one that matches no route. It calls the guard and the handler, answers a
// refusal, and writes metrics and the access log.
func (s *Server) around(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := s.handle(c, next)
		var p *Problem
		if err != nil {
			p = s.ProblemOf(err)
			if p.Status == http.StatusMethodNotAllowed && p.allow == "" { // from the router
				p.allow, _ = c.Get(echo.ContextKeyHeaderAllow).(string)
			}
			answerProblem(c, p)
		}
		took := time.Since(start)
		m := s.Metrics.ofRequest(c)
		status := c.Response().Status
		if p != nil && p.Status == StatusClientGone {
			status = StatusClientGone
		}
		m.Observe(status, took)
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
			err = Panicked(r)
		}
	}()
	if conn := ConnectionOf(c.Request()); conn != nil {
		if err := conn.begin(c); err != nil {
			return err
		}
	}
	if err := s.guard(c); err != nil {
		return err
	}
	if answered, err := s.preflight(c); answered {
		return err
	}
	return next(c)
}

// Panicked returns the error of a panic, with the stack.
func Panicked(r any) error { return fmt.Errorf("%w: %v\n%s", ErrPanic, r, debug.Stack()) }

var ErrPanic = errors.New("panic")

// access is the content of a request's log line.
type access struct {
	route   *RouteMetrics
	status  int
	took    time.Duration
	problem *Problem // nil if the request was not refused
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
	case a.problem != nil && a.problem.Status == http.StatusInternalServerError:
		level = zerolog.ErrorLevel
	case a.problem != nil && a.problem.Reported:
	case a.status >= http.StatusInternalServerError:
		level = zerolog.WarnLevel
	case a.route.hot && a.status < http.StatusBadRequest, a.status == StatusClientGone:
		level = zerolog.DebugLevel
	}
	e := s.Log.WithLevel(level)
	if level < s.Log.GetLevel() || level < zerolog.GlobalLevel() || e == nil {
		return
	}
	r := c.Request()
	secret, hidden := "", false
	if s.SecretOf != nil {
		secret, hidden = s.SecretOf(r.URL.Path)
	}
	e = e.Str("method", r.Method).Str("route", c.Path())
	if !hidden {
		e = e.Str("path", r.URL.Path)
	}
	e = e.Int("status", a.status).Dur("took_ms", a.took).Int64("bytes_out", c.Response().Size).Str("remote", r.RemoteAddr)
	if r.ContentLength >= 0 {
		e = e.Int64("bytes_in", r.ContentLength)
	}
	if a.problem != nil {
		e = e.Str("code", a.problem.Code)
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
