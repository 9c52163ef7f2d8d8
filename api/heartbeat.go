package api

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest/registry"
	"github.com/daybookq/daybook/job"
)

// runnerRegistry is the part of the engine that knows which runners are alive. Its methods never wait.
type runnerRegistry interface {
	Heartbeat(id string, info registry.Info, takeover bool) (aliveSince int64, every time.Duration, err error)
	Goodbye(id, instance string) error
	Registered(id string) (known registry.Runner, ok bool)
	AllRegistered(after string, limit int) (list []registry.Runner, more bool)
}

// heartbeat answers POST /runners/{id}: 200 with the time until the next heartbeat.
func (s *Server) heartbeat(c echo.Context) error {
	id, err := pathRunner(c)
	if err != nil {
		return err
	}
	var r struct {
		registry.Info
		Takeover bool `json:"takeover"`
	}
	body, err := web.ReadObject(c, &s.bodies.small, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	if err := r.Info.Check(); err != nil {
		if wrong, ok := errors.AsType[*registry.FieldError](err); ok {
			return web.BadRequest(wrong.Field, wrong.Text)
		}
		return err
	}
	since, every, err := s.engine.Heartbeat(id, r.Info, r.Takeover)
	if err != nil {
		return err
	}
	return web.AnswerDocument(c, http.StatusOK, struct {
		HeartbeatMs int64 `json:"heartbeat_ms"`
		AliveSince  int64 `json:"alive_since"`
	}{every.Milliseconds(), since})
}

// goodbye answers DELETE /runners/{id}. With it a runner reports its clean end.
func (s *Server) goodbye(c echo.Context) error {
	id, err := pathRunner(c)
	if err != nil {
		return err
	}
	instance := ""
	for _, p := range web.Parameters(c) {
		instance = p.Value // the route has no other parameter
	}
	if err := registry.CheckInstance(instance); err != nil {
		return web.BadField("instance", err)
	}
	if err := s.engine.Goodbye(id, instance); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// pathRunner returns the runner id in the path. A runner that sends heartbeats must have an id of the bytes of names,
// because paths cannot contain other bytes.
func pathRunner(c echo.Context) (string, error) {
	id := c.Param("id")
	if strings.Contains(id, "/") { // the router puts the rest of the path into the last parameter
		return "", web.RouteNotFound()
	}
	return id, web.BadField("id", job.CheckName("id", id))
}
