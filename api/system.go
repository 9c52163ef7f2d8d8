package api

import (
	_ "embed"
	"errors"
	"net/http"
	"runtime"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// rootPage is what a browser shows of GET /.
//
//go:embed docspage/root.html
var rootPage []byte

// root answers GET / with where to go from there: a page for browsers, JSON for programs. The links are relative, so that they work under a
// path prefix of a proxy.
func (s *Server) root(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	if prefers(c.Request(), mimeHTML) {
		c.Response().Header().Set("Content-Security-Policy", docsPolicy)
		return answer(c, http.StatusOK, mimeHTML+"; charset=utf-8", rootPage)
	}
	return answerValue(c, struct {
		Name    string `json:"name"`
		Version string `json:"version"`
		Docs    string `json:"docs"`
		OpenAPI string `json:"openapi"`
		Queues  string `json:"queues"`
		Stats   string `json:"stats"`
		Metrics string `json:"metrics"`
		Ready   string `json:"ready"`
	}{"daybook", s.build.Version, "docs", "openapi.yaml", "queues", "stats", "metrics", "readyz"})
}

// ping answers that the server runs.
func (s *Server) ping(c echo.Context) error {
	return answer(c, http.StatusOK, mimeText, []byte("pong"))
}

// healthz answers that the process serves; it says nothing about the journal, since a restart would not mend its disk.
func (s *Server) healthz(c echo.Context) error {
	return answer(c, http.StatusOK, mimeJSON, []byte(`{"status":"ok"}`+"\n"))
}

// readyz answers whether changes are taken.
func (s *Server) readyz(c echo.Context) error {
	err := s.engine.Ready()
	if s.draining.Err() != nil {
		err = errShuttingDown
	}
	if err == nil {
		return answer(c, http.StatusOK, mimeJSON, []byte(`{"status":"ready"}`+"\n"))
	}
	p := *problemOf(err)
	if p.status != http.StatusServiceUnavailable {
		p.status = http.StatusServiceUnavailable
		if !errors.Is(err, ingest.ErrApply) && p.code == "internal" {
			p.code = "not_ready"
		}
	}
	p.detail, p.fate = err.Error(), notStored
	return &p
}

// Version says which build this is.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

func (s *Server) version(c echo.Context) error {
	return answerValue(c, struct {
		Version
		Go    string `json:"go"`
		Level int    `json:"level"`
	}{s.build, runtime.Version(), job.Level})
}

func (s *Server) stats(c echo.Context) error { return answerValue(c, s.engine.Stats()) }

// answerValue writes what nobody asks for in a hurry, by reflection.
func answerValue(c echo.Context, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, mimeJSON, append(b, '\n'))
}
