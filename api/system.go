package api

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// clock is the journal's time, which all times of jobs use. AcceptTime sets it to the wall clock if it is earlier, and
// returns how far it is then ahead of the wall clock.
type clock interface {
	Now() int64 // unix ms
	ClockOffset() time.Duration
	AcceptTime(ctx context.Context) (offsetMs int64, err error)
}

// monitor reports on the engine. Its methods never wait.
type monitor interface {
	Stats() ingest.Stats
	Ready() error
	QueueFigures() []store.QueueFigures
	QueueRows() int
	CommandTimes() map[string]ingest.CommandTimes
	Level() (level, newest int)
}

// rootPage is the answer to GET / for browsers.
//
//go:embed docspage/root.html
var rootPage []byte

// root answers GET / with links: a page for browsers, and JSON for programs. The links are relative, so that they work
// if a proxy adds a path prefix.
func (s *Server) root(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderVary, echo.HeaderAccept)
	if web.Prefers(c.Request(), web.MIMEHTML) {
		c.Response().Header().Set("Content-Security-Policy", docsPolicy)
		return web.Answer(c, http.StatusOK, web.MIMEHTML+"; charset=utf-8", rootPage)
	}
	return web.AnswerDocument(c, http.StatusOK, struct {
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

// ping answers GET /ping.
func (s *Server) ping(c echo.Context) error {
	return web.Answer(c, http.StatusOK, web.MIMEText, []byte("pong"))
}

// healthz answers that the process serves requests. It does not check the journal, because a restart of the process
// would not repair its disk.
func (s *Server) healthz(c echo.Context) error {
	return web.AnswerDocument(c, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

// readyz answers with status 200 if the server accepts changes.
func (s *Server) readyz(c echo.Context) error {
	err := s.engine.Ready()
	if s.draining.Err() != nil {
		err = web.ErrShuttingDown
	}
	if err == nil {
		return web.AnswerDocument(c, http.StatusOK, readyDocument(s.engine.ClockOffset()))
	}
	p := *refusal.Of(err)
	if p.Status != http.StatusServiceUnavailable {
		p.Status = http.StatusServiceUnavailable
		if !errors.Is(err, ingest.ErrApply) && p.Code == "internal" {
			p.Code = "not_ready"
		}
	}
	p.Detail, p.Fate = err.Error(), web.NotStored
	return &p
}

// ready is the answer of /readyz while the server accepts changes.
type ready struct {
	Status        string `json:"status"`
	ClockOffsetMs int64  `json:"clock_offset_ms"` // how far the journal's time is ahead of the wall clock
	Detail        string `json:"detail,omitzero"`
}

// largeOffset is the difference between the journal's time and the wall clock from which /readyz explains it.
const largeOffset = time.Minute

func readyDocument(offset time.Duration) ready {
	doc := ready{Status: "ready", ClockOffsetMs: offset.Milliseconds()}
	switch {
	case offset < -largeOffset:
		doc.Detail = fmt.Sprintf("the wall clock was set forward: the journal's time is %v earlier and catches up at double speed, so jobs with a run_at start late; POST /clock/accept sets the journal's time at once",
			-offset.Round(time.Second))
	case offset > largeOffset:
		doc.Detail = fmt.Sprintf("the wall clock was set back: the journal's time is %v ahead of it and runs at half speed until the two are equal", offset.Round(time.Second))
	}
	return doc
}

// Version identifies the build of the server.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

func (s *Server) version(c echo.Context) error {
	return web.AnswerDocument(c, http.StatusOK, struct {
		Version
		Go    string `json:"go"`
		Level int    `json:"level"`
	}{s.build, runtime.Version(), job.Level})
}

// Stats is the answer of /stats.
type Stats struct {
	ingest.Stats
	BlobBytes int64 `json:"blob_bytes"` // of all blobs and unfinished uploads, in the data directory or in a bucket
}

func (s *Server) stats(c echo.Context) error {
	doc := Stats{Stats: s.engine.Stats()}
	if s.blobs.Storage != nil {
		doc.BlobBytes = s.blobs.Storage.Used()
	}
	return web.AnswerDocument(c, http.StatusOK, doc)
}
