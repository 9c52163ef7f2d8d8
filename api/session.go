package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// openSession answers POST /sessions.
func (s *Server) openSession(c echo.Context) error {
	body, err := s.readJSON(c, s.orders, false)
	if err != nil {
		return err
	}
	defer body.release()
	var r struct {
		RunnerID *string `json:"runner_id"`
	}
	if len(body.bytes) > 0 {
		if err := decodeObject(body.bytes, &r); err != nil {
			return err
		}
	}
	var cmd job.OpenSession
	if r.RunnerID != nil {
		cmd.Runner = *r.RunnerID
		if err := job.CheckText("runner_id", cmd.Runner, 1, job.MaxRunnerBytes); err != nil {
			return badField("runner_id", err)
		}
	}
	session, receipt, err := s.engine.OpenSession(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	setSeq(c, receipt.Seq)
	c.Response().Header().Set(echo.HeaderLocation, "/sessions/"+session.ID.String())
	return answer(c, http.StatusCreated, mimeJSON, append(appendSession(nil, &session), '\n'))
}

// session answers GET /sessions/{id}.
func (s *Server) session(c echo.Context) error {
	id, minSeq, err := idToRead(c)
	if err != nil {
		return err
	}
	session, err := s.engine.Session(c.Request().Context(), minSeq, id)
	if err != nil {
		return sessionGone(err)
	}
	return answer(c, http.StatusOK, mimeJSON, append(appendSession(nil, &session), '\n'))
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
	setSeq(c, receipt.Seq)
	return c.NoContent(http.StatusNoContent)
}

// sessionGone says that a request about a session itself, which is not there, stored nothing.
func sessionGone(err error) error {
	if errors.Is(err, job.SessionNotFound) {
		p := problemOf(err)
		p.fate = notStored
		return p
	}
	return err
}

func appendSession(b []byte, s *store.Session) []byte {
	b = append(b, `{"session_id":`...)
	b = appendID(b, s.ID)
	b = append(b, `,"runner_id":`...)
	b = appendTextOrNull(b, s.Runner)
	b = append(b, `,"created_at":`...)
	b = strconv.AppendInt(b, s.CreatedAt, 10)
	b = append(b, `,"used_at":`...)
	b = strconv.AppendInt(b, s.UsedAt, 10)
	b = append(b, `,"expires_at":`...)
	b = strconv.AppendInt(b, s.ExpiresAt, 10)
	b = append(b, `,"slots":[`...)
	for i, l := range s.Slots {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"slot":%d,"number":%d}`, l.Slot, l.Number)
	}
	return append(b, "]}"...)
}
