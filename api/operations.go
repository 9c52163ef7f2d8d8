package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// move answers POST /jobs/{id}/cancel, /redrive and /run.
func (s *Server) move(op job.Op) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		if err := s.noBody(c); err != nil {
			return err
		}
		moved, receipt, err := s.engine.Move(c.Request().Context(), job.Move{Op: op, Job: id})
		if err != nil {
			return err
		}
		if err := refused(moved.Refusal); err != nil {
			return err
		}
		return s.answerChanged(c, receipt, id, moved.Status)
	}
}

// remove answers DELETE /jobs/{id}.
func (s *Server) remove(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	moved, receipt, err := s.engine.Move(c.Request().Context(), job.Move{Op: job.Delete, Job: id})
	if err != nil {
		return err
	}
	if err := refused(moved.Refusal); err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

// patch answers PATCH /jobs/{id}.
func (s *Server) patch(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	body, err := s.readJSON(c, s.orders, false)
	if err != nil {
		return err
	}
	defer body.release()
	var r struct {
		Priority    *int64 `json:"priority"`
		RunAt       *int64 `json:"run_at"`
		MaxAttempts *int64 `json:"max_attempts"`
	}
	if err := decodeObject(body.bytes, &r); err != nil {
		return err
	}
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
			return badField(f.name, err)
		}
		if n := int(*f.n); f.to != nil {
			*f.to = &n
		}
	}
	if r.Priority == nil && r.RunAt == nil && r.MaxAttempts == nil {
		return badRequest("", "nothing to change: priority, run_at or max_attempts is wanted")
	}
	moved, receipt, err := s.engine.Patch(c.Request().Context(), p)
	if err != nil {
		return err
	}
	if err := refused(moved.Refusal); err != nil {
		return err
	}
	return s.answerChanged(c, receipt, id, moved.Status)
}

// moveBatch answers the routes that move the jobs of a batch.
func (s *Server) moveBatch(op job.Op) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		return s.moveAll(c, job.Move{Op: op, Batch: id})
	}
}

// moveQueue answers the routes that move the jobs of a queue.
func (s *Server) moveQueue(op job.Op) echo.HandlerFunc {
	return func(c echo.Context) error {
		client, typ, err := pathQueue(c)
		if err != nil {
			return err
		}
		return s.moveAll(c, job.Move{Op: op, Client: client, Type: typ})
	}
}

// moveAll moves the jobs of a batch or queue that are in the status which the query names. What one command can do is answered with how
// many it moved; else a sweep goes on, and the answer tells where to read how far it is.
func (s *Server) moveAll(c echo.Context, m job.Move) error {
	const parameter, all = "status", "all"
	named := ""
	for _, p := range parameters(c) {
		if named = p.value; named == "" { // perhaps a script's variable without a value: it must not mean all
			return badRequest(parameter, "status is there without a value")
		}
	}
	takes := m.Op.Takes()
	switch {
	case named == "" && m.Op == job.Redrive:
		m.Status = job.Failed
	case named == "" && m.Op == job.Delete && m.Batch.IsZero():
		return badRequest(parameter, "status is wanted: that of the jobs to delete, or all")
	case named == "", named == all && m.Op == job.Delete:
	default:
		var err error
		if m.Status, err = job.ParseStatus(named); err != nil || !slices.Contains(takes, m.Status) {
			names := make([]string, len(takes))
			for i, status := range takes {
				names[i] = status.String()
			}
			return badRequest(parameter, fmt.Sprintf("%s takes jobs that are %s, not %q", m.Op, strings.Join(names, ", "), shortened(named)))
		}
	}
	if err := s.noBody(c); err != nil {
		return err
	}
	swept, receipt, err := s.engine.MoveAll(c.Request().Context(), m)
	if err != nil {
		return err
	}
	if err := refused(swept.Refusal); err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	if swept.Sweep.IsZero() {
		return answer(c, http.StatusOK, mimeJSON, append(appendSweep(nil, sweepOf(m, swept, receipt)), '\n'))
	}
	c.Response().Header().Set(echo.HeaderLocation, "/sweeps/"+swept.Sweep.String())
	return answer(c, http.StatusAccepted, mimeJSON, append(appendSweep(nil, sweepOf(m, swept, receipt)), '\n'))
}

// sweepOf is the document of a sweep after its first step; one that needed no other has no id.
func sweepOf(m job.Move, swept store.Swept, r ingest.Receipt) *store.Sweep {
	doc := &store.Sweep{
		ID: swept.Sweep, Op: m.Op, Batch: m.Batch, Client: m.Client, Type: m.Type, Status: m.Status, Moved: swept.Moved, Skipped: swept.Skipped,
		CreatedAt: r.At,
	}
	if swept.Sweep.IsZero() {
		doc.FinishedAt = r.At
	}
	return doc
}

// sweep answers GET /sweeps/{id}.
func (s *Server) sweep(c echo.Context) error {
	id, minSeq, err := idToRead(c)
	if err != nil {
		return err
	}
	doc, err := s.engine.Sweep(c.Request().Context(), minSeq, id)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, mimeJSON, append(appendSweep(nil, &doc), '\n'))
}

// sweeps answers GET /sweeps: those under way, and the newest of those that ended within a day.
func (s *Server) sweeps(c echo.Context) error {
	minSeq, err := minSeq(c)
	if err != nil {
		return err
	}
	docs, err := s.engine.Sweeps(c.Request().Context(), minSeq)
	if err != nil {
		return err
	}
	at := buffer()
	b := append(*at, `{"sweeps":[`...)
	for i := range docs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSweep(b, &docs[i])
	}
	b = append(b, "]}\n"...)
	err = answer(c, http.StatusOK, mimeJSON, b)
	putBuffer(at, b)
	return err
}

func appendSweep(b []byte, w *store.Sweep) []byte {
	b = append(b, `{"sweep_id":`...)
	b = appendID(b, w.ID)
	b = append(b, `,"operation":`...)
	b = appendName(b, w.Op.String())
	b = append(b, `,"batch_id":`...)
	b = appendID(b, w.Batch)
	b = append(b, `,"client":`...)
	b = appendTextOrNull(b, w.Client)
	b = append(b, `,"type":`...)
	b = appendTextOrNull(b, w.Type)
	b = append(b, `,"status":`...)
	if w.Status == 0 {
		b = append(b, "null"...)
	} else {
		b = appendName(b, w.Status.String())
	}
	b = append(b, `,"moved":`...)
	b = strconv.AppendInt(b, w.Moved, 10)
	b = append(b, `,"skipped":`...)
	b = strconv.AppendInt(b, w.Skipped, 10)
	b = append(b, `,"done":`...)
	b = strconv.AppendBool(b, w.FinishedAt != 0)
	b = append(b, `,"created_at":`...)
	b = strconv.AppendInt(b, w.CreatedAt, 10)
	b = append(b, `,"finished_at":`...)
	b = appendNumber(b, w.FinishedAt)
	return append(b, '}')
}
