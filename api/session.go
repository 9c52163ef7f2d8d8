package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

type sessionOperator interface {
	OpenSession(ctx context.Context, o job.OpenSession) (document.Session, ingest.Receipt, error)
	EndSession(ctx context.Context, s job.EndSession) (ingest.Receipt, error)
}

type sessionReader interface {
	SessionDocument(id job.ID) (document.Session, error)
}

// openSession answers POST /sessions.
func (s *Server) openSession(c echo.Context) error {
	var r struct {
		RunnerID *string `json:"runner_id"`
	}
	body, err := web.ReadObject(c, &s.bodies.optional, &r)
	if err != nil {
		return err
	}
	defer body.Release()
	var cmd job.OpenSession
	if r.RunnerID != nil {
		cmd.Runner = *r.RunnerID
		if err := job.CheckText("runner_id", cmd.Runner, 1, job.MaxRunnerBytes); err != nil {
			return web.BadField("runner_id", err)
		}
	}
	session, receipt, err := s.engine.OpenSession(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	c.Response().Header().Set(echo.HeaderLocation, "/sessions/"+session.ID.String())
	return web.AnswerDocument(c, http.StatusCreated, documentOfSession(&session))
}

// session answers GET /sessions/{id}.
func (s *Server) session(c echo.Context) error {
	id, err := s.idToRead(c)
	if err != nil {
		return err
	}
	session, err := s.engine.SessionDocument(id)
	if err != nil {
		return sessionGone(err)
	}
	return web.AnswerDocument(c, http.StatusOK, documentOfSession(&session))
}

// endSession answers DELETE /sessions/{id}.
func (s *Server) endSession(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	receipt, err := s.engine.EndSession(c.Request().Context(), job.EndSession{Session: id})
	if err != nil {
		return sessionGone(err)
	}
	web.SetSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

// sessionGone changes the problem of a read or end of an unknown session: it reports that nothing was stored. For other
// requests in a session this is unknown.
func sessionGone(err error) error {
	if errors.Is(err, job.SessionNotFound) {
		p := refusal.Of(err)
		p.Fate = web.NotStored
		return p
	}
	return err
}

// sessionDocument is the document of a session. RunnerID is null if the session was opened without one. Slots has the
// number of the last request in each slot.
type sessionDocument struct {
	SessionID job.ID         `json:"session_id"`
	RunnerID  *string        `json:"runner_id"`
	CreatedAt int64          `json:"created_at"`
	UsedAt    int64          `json:"used_at"`
	ExpiresAt int64          `json:"expires_at"`
	Slots     []slotDocument `json:"slots"`
}

type slotDocument struct {
	Slot   int    `json:"slot"`
	Number uint64 `json:"number"`
}

func documentOfSession(s *document.Session) sessionDocument {
	doc := sessionDocument{SessionID: s.ID, RunnerID: web.OrNull(s.Runner), CreatedAt: s.CreatedAt, UsedAt: s.UsedAt, ExpiresAt: s.ExpiresAt}
	for _, slot := range s.Slots {
		doc.Slots = append(doc.Slots, slotDocument(slot))
	}
	return doc
}
