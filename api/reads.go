package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
)

// reader reads jobs within the budgets of memory.
type reader struct {
	engine backend.Engine
	*limits
}

// page waits until the state includes an earlier change, and then takes a share for a page of documents. A request must
// not hold a share while it waits.
func (s *reader) page(c echo.Context, after caughtUp, n int64) (*web.Share, error) {
	if err := s.engine.CatchUp(c.Request().Context(), after.MinSeq); err != nil {
		return nil, err
	}
	return web.Hold(c, s.documents, n)
}

// readJob reads a job, and takes a share for the answer. The caller releases the share after it has written the answer.
func (s *reader) readJob(c echo.Context, from *web.Lane, id job.ID) (j job.Job, held *web.Share, err error) {
	held = web.ShareOf(c, from)
	j, err = readJob(c.Request().Context(), s.engine, held, id)
	return j, held, err
}

// readJob reads a job, and grows a share to the memory that the job takes. Most jobs are small, so it takes little first. If
// the job does not fit, it takes enough for the largest job. It releases the share if it fails.
func readJob(ctx context.Context, engine backend.Engine, held *web.Share, id job.ID) (j job.Job, err error) {
	for _, n := range [...]int64{web.SmallShareBytes, answer.MaxDocumentBytes} {
		var fits bool
		if err = held.Resize(ctx, n); err == nil {
			j, fits, err = engine.JobWithin(id, n-answer.JobStateBytes)
			answer.Conceal(job.KeyOf(ctx), &j)
		}
		if err != nil {
			held.Release()
			return j, err
		}
		if fits {
			held.Shrink(max(0, n-answer.StateBytes(&j)))
			return j, nil
		}
	}
	held.Release()
	return j, fmt.Errorf("job %s takes more than %d bytes, the maximum for a job", id, answer.MaxDocumentBytes)
}

// readJobAfter waits until the state includes the change with the receipt r, and then reads the job.
func (s *reader) readJobAfter(c echo.Context, r ingest.Receipt, id job.ID) (job.Job, *web.Share, error) {
	if err := s.engine.CatchUp(c.Request().Context(), r.Seq); err != nil {
		return job.Job{}, web.ShareOf(c, s.changes), err
	}
	return s.readJob(c, s.changes, id)
}

// answerStored answers a change that is stored. If there is no memory for the answer, the problem says that the change
// is stored.
func answerStored(c echo.Context, held *web.Share, status int, text []byte) error {
	if err := held.Resize(c.Request().Context(), int64(cap(text))); err != nil {
		return refusal.After(err)
	}
	return web.Answer(c, status, web.MIMEJSON, text)
}

// readJobRequest reads a request about one job: it returns the id in the path, and decodes the body into a struct.
func readJobRequest(c echo.Context, rule *web.BodyRule, into any) (job.ID, *web.Body, error) {
	id, err := pathID(c)
	if err != nil {
		return id, nil, err
	}
	b, err := web.ReadObject(c, rule, into)
	return id, b, err
}

// answerChanged answers a change of one job with the document of the job after the change. If answerChanged fails, the
// change is still stored.
func (s *reader) answerChanged(c echo.Context, r ingest.Receipt, id job.ID, status job.Status) error {
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

// catchUp waits until the state includes everything that a GET must see: all commands that were synced when the request
// arrived, and the position in its Daybook-Min-Seq header.
func (s *reader) catchUp(c echo.Context) error { return web.CatchUp(c, s.engine.CatchUp) }

// holdPage is page for a request whose headers were not read.
func (s *reader) holdPage(c echo.Context, n int64) (*web.Share, error) {
	if err := s.catchUp(c); err != nil {
		return nil, err
	}
	return web.Hold(c, s.documents, n)
}
