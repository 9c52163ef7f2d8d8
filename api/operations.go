package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

type operator interface {
	Move(ctx context.Context, m job.Move) (applied.Moved, ingest.Receipt, error)
	MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error)
	Patch(ctx context.Context, p job.Patch) (applied.Moved, ingest.Receipt, error)
}

// move answers POST /jobs/{id}/cancel, /redrive and /run.
func (s *Server) move(op job.Op) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		if err := web.NoBody(c, &s.bodies.optional); err != nil {
			return err
		}
		status, receipt, err := s.moveOne(c, job.Move{Op: op, Job: id})
		if err != nil {
			return err
		}
		return s.answerChanged(c, receipt, id, status)
	}
}

// moveOne applies an operation to one job, and returns the status of the job after it.
func (s *Server) moveOne(c echo.Context, m job.Move) (job.Status, ingest.Receipt, error) {
	moved, receipt, err := s.engine.Move(c.Request().Context(), m)
	if err == nil {
		err = refusal.Err(moved.Refusal)
	}
	return moved.Status, receipt, err
}

// remove answers DELETE /jobs/{id}.
func (s *Server) remove(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	_, receipt, err := s.moveOne(c, job.Move{Op: job.Delete, Job: id})
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

// patch answers PATCH /jobs/{id}.
func (s *Server) patch(c echo.Context) error {
	var r struct {
		Priority    *int64 `json:"priority"`
		RunAt       *int64 `json:"run_at"`
		MaxAttempts *int64 `json:"max_attempts"`
	}
	id, body, err := readJobRequest(c, &s.bodies.small, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	p := job.Patch{Job: id, RunAt: r.RunAt}
	for _, f := range [...]struct {
		name   string
		n      *int64
		lo, hi int64
		to     **int
	}{
		{"priority", r.Priority, 0, job.MaxPriority, &p.Priority},
		{"run_at", r.RunAt, 0, job.MaxTimeMs, nil},
		{"max_attempts", r.MaxAttempts, 1, job.MaxAttempts, &p.MaxAttempts},
	} {
		if f.n == nil {
			continue
		}
		if err := job.CheckRange(f.name, *f.n, f.lo, f.hi); err != nil {
			return web.BadField(f.name, err)
		}
		if n := int(*f.n); f.to != nil {
			*f.to = &n
		}
	}
	if r.Priority == nil && r.RunAt == nil && r.MaxAttempts == nil {
		return web.BadRequest("", "the request changes nothing: priority, run_at or max_attempts is required")
	}
	moved, receipt, err := s.engine.Patch(c.Request().Context(), p)
	if err != nil {
		return err
	}
	if err := refusal.Err(moved.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, moved.Status)
}
