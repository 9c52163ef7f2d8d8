package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// follower waits until the state includes MinSeq and all commands that were synced when CatchUp was called.
type follower interface {
	CatchUp(ctx context.Context, minSeq uint64) error
}

// jobReader reads jobs. JobWithin reads a job only if it takes at most room bytes in memory; otherwise fits
// is false.
type jobReader interface {
	JobWithin(id job.ID, room int64) (doc job.Job, fits bool, err error)
	AwaitEnd(id job.ID) (*store.JobEnd, error)
}

// job answers GET /jobs/{id}.
func (s *Server) job(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	query := web.Parameters(c)
	view, err := viewOf(query)
	if err != nil {
		return err
	}
	fields, err := onlyFields(query)
	if err != nil {
		return err
	}
	if err := s.catchUp(c); err != nil {
		return err
	}
	if view == placeView {
		return s.answerPlace(c, id)
	}
	j, held, err := s.readJob(c, s.documents, id)
	if err != nil {
		return err
	}
	defer held.Release()
	if view == statesView {
		return s.answerStates(c, held, &j)
	}
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		b = append(fields.AppendJob(b, &j), '\n')
		if err := held.Resize(c.Request().Context(), int64(cap(b))); err != nil {
			return b, err
		}
		return b, web.AnswerTagged(c, web.MIMEJSON, b, b)
	})
}

// answerChanged answers a change of one job with the document of the job after the change. If answerChanged fails, the
// change is still stored.
func (s *Server) answerChanged(c echo.Context, r ingest.Receipt, id job.ID, status job.Status) error {
	web.SetSeq(c, r.Seq)
	j, held, err := s.readJobAfter(c, r, id)
	defer held.Release()
	if errors.Is(err, job.NotFound) { // purged already, for example because its retention is 0
		return web.Answer(c, http.StatusOK, web.MIMEJSON, append(answer.AppendGone(nil, id, status), '\n'))
	}
	if err != nil {
		return refusal.After(err)
	}
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		b = append(answer.AppendJob(b, &j, answer.InJSON), '\n')
		return b, answerStored(c, held, http.StatusOK, b)
	})
}

// pathID returns the id in the path.
func pathID(c echo.Context) (job.ID, error) { return operation.PathID("id", c.Param("id")) }

// idToRead waits until the state has caught up, and returns the id in the path of a GET.
func (s *Server) idToRead(c echo.Context) (id job.ID, err error) {
	if id, err = pathID(c); err == nil {
		err = s.catchUp(c)
	}
	return id, err
}

// catchUp waits until the state includes everything that a GET must see: all commands that were synced when the request
// arrived, and the position in its Daybook-Min-Seq header.
func (s *Server) catchUp(c echo.Context) error {
	return web.CatchUp(c, s.engine.CatchUp)
}
