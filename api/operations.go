package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
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

// moveBatch answers the routes that cancel, redrive or delete jobs of a batch.
func (s *Server) moveBatch(op job.Op) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		return s.moveAll(c, job.Move{Op: op, Batch: id})
	}
}

// moveQueue answers the routes that cancel, redrive or delete jobs of a queue.
func (s *Server) moveQueue(op job.Op) echo.HandlerFunc {
	return func(c echo.Context) error {
		client, typ, err := pathQueue(c)
		if err != nil {
			return err
		}
		return s.moveAll(c, job.Move{Op: op, Client: client, Type: typ})
	}
}

// moveAll applies an operation to the jobs of a batch or queue that have the status in the query. If one command can
// change all of them, the answer is 200 with their number. Otherwise a sweep changes the rest, and the answer is 202
// with the path of the sweep.
func (s *Server) moveAll(c echo.Context, m job.Move) error {
	const parameter, all = "status", "all"
	named := ""
	for _, p := range web.Parameters(c) {
		if named = p.Value; named == "" { // an empty value must not mean all: a script may have used an empty variable
			return web.BadRequest(parameter, "the parameter status has no value")
		}
	}
	takes := m.Op.Takes()
	switch {
	case named == "" && m.Op == job.Redrive:
		m.Status = job.Failed
	case named == "" && m.Op == job.Delete && m.Batch.IsZero():
		return web.BadRequest(parameter, "status is required: the status of the jobs to delete, or all")
	case named == "", named == all && m.Op == job.Delete:
	default:
		var err error
		if m.Status, err = job.ParseStatus(named); err != nil || !slices.Contains(takes, m.Status) {
			names := make([]string, len(takes))
			for i, status := range takes {
				names[i] = status.String()
			}
			return web.BadRequest(parameter, fmt.Sprintf("%s requires a status of %s, not %q", m.Op, strings.Join(names, ", "), web.Shortened(named)))
		}
	}
	if err := web.NoBody(c, &s.bodies.optional); err != nil {
		return err
	}
	swept, receipt, err := s.engine.MoveAll(c.Request().Context(), m)
	if err != nil {
		return err
	}
	if err := refusal.Err(swept.Refusal); err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	if swept.Status != 0 {
		return s.answerEnded(c, &m, &swept, receipt)
	}
	sweep := document.Sweep{
		ID: swept.Sweep, Op: m.Op, Batch: m.Batch, Client: m.Client, Type: m.Type, Status: m.Status, Moved: swept.Moved, Skipped: swept.Skipped,
		CreatedAt: receipt.At,
	}
	if swept.Sweep.IsZero() { // the command changed all jobs
		sweep.FinishedAt = receipt.At
		return web.AnswerDocument(c, http.StatusOK, documentOfSweep(&sweep))
	}
	c.Response().Header().Set(echo.HeaderLocation, "/sweeps/"+swept.Sweep.String())
	return web.AnswerDocument(c, http.StatusAccepted, documentOfSweep(&sweep))
}

// answerEnded answers a request that ended a batch with its final status. The answer is 200 with the number of changed
// jobs, or 202 if the server still has to change more.
func (s *Server) answerEnded(c echo.Context, m *job.Move, swept *applied.Swept, r ingest.Receipt) error {
	sweep := document.Sweep{Op: m.Op, Batch: m.Batch, Moved: swept.Moved, CreatedAt: r.At, FinishedAt: r.At}
	status := http.StatusOK
	if swept.More {
		status, sweep.FinishedAt = http.StatusAccepted, 0
		c.Response().Header().Set(echo.HeaderLocation, "/batches/"+m.Batch.String())
	}
	return web.AnswerDocument(c, status, documentOfSweep(&sweep))
}
