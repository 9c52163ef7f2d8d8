package api

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/api/joblog"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/job"
)

const (
	// maxLogOffset is far more than a job can print.
	maxLogOffset = 1 << 60
	// maxLogReaders bounds the requests that follow logs. Each occupies a connection that other clients need too.
	maxLogReaders = 256
	codeNoLog     = "log_not_found"
)

// jobLogs are the logs of running jobs.
type jobLogs struct {
	*joblog.Logs
	readers atomic.Int64 // requests that follow a log
}

// withLogs says which jobs have logs.
const withLogs = "only containers have logs, and programs whose handler has log_bytes; what a script prints is in the log of its runner"

func noLog(detail string) *web.Problem {
	return &web.Problem{Status: http.StatusNotFound, Code: codeNoLog, Detail: detail}
}

// appendLog answers POST /jobs/{id}/log. The runner adds new output of the job.
func (s *Server) appendLog(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	var claim job.ID
	offset := int64(-1)
	for _, p := range web.Parameters(c) {
		switch p.Key {
		case "claim_id":
			if claim, err = job.ParseID(p.Value); err != nil {
				return web.BadID(p.Key)
			}
		case "offset":
			n, err := web.WholeNumber(p.Key, p.Value)
			if err == nil {
				err = web.BadField(p.Key, job.CheckRange(p.Key, *n, 0, maxLogOffset))
			}
			if err != nil {
				return err
			}
			offset = *n
		}
	}
	switch {
	case claim.IsZero():
		return web.BadRequest("claim_id", "claim_id is missing: only the run that holds a job can write its log")
	case offset < 0:
		return web.BadRequest("offset", "offset is missing: it is the place of the body in what the job has printed")
	}
	body, err := web.ReadBody(c, &s.bodies.log)
	if err != nil {
		return err
	}
	defer body.Release()
	end, err := s.engine.AwaitEnd(id) // before it reads the job, so that its end is not missed
	if err != nil {
		return err
	}
	if err = s.catchUp(c); err == nil {
		err = s.holds(c, id, claim)
	}
	if err != nil {
		end.Stop()
		return err
	}
	s.logs.Append(id, claim, offset, body.Bytes, end)
	return c.NoContent(http.StatusNoContent)
}

// holds refuses a request unless the job runs under the claim.
func (s *Server) holds(c echo.Context, id, claim job.ID) error {
	j, held, err := s.readJob(c, s.documents, id)
	defer held.Release()
	switch {
	case err != nil:
		return err
	case j.Status == job.Cancelled:
		return refusal.Err(job.WasCancelled)
	case j.Status != job.Active:
		return refusal.Err(job.NotActive)
	case j.Claim != claim:
		return refusal.Err(job.ClaimLost)
	}
	return nil
}

// jobLog answers GET /jobs/{id}/log with the kept output of a job. With follow, the answer continues with new output
// until the job ends. For a job that has ended, the answer is the blob that the runner has stored.
func (s *Server) jobLog(c echo.Context) error {
	follow := false
	for _, p := range web.Parameters(c) {
		var err error
		if follow, err = web.QueryBool(p); err != nil {
			return err
		}
	}
	id, err := s.idToRead(c)
	if err != nil {
		return err
	}
	end, err := s.engine.AwaitEnd(id)
	if err != nil {
		return err
	}
	defer end.Stop()
	if err := s.catchUp(c); err != nil { // so that no end before the wait is missed
		return err
	}
	j, held, err := s.readJob(c, s.documents, id)
	held.Release()
	if err != nil {
		return err
	}
	if j.Status.Terminal() {
		return s.storedLog(c, &j)
	}
	reader := s.logs.Reader(id)
	if !follow || c.Request().Method == http.MethodHead {
		if _, _, exists := s.logs.Reader(id).Next(); !exists {
			return noLog("the server has nothing of a log of the job, which has not ended; ?follow=true waits for it; " + withLogs)
		}
		logHeaders(c)
		return s.sendLog(c, reader, nil)
	}
	if s.logs.readers.Add(1) > maxLogReaders {
		s.logs.readers.Add(-1)
		return &web.Problem{Status: http.StatusTooManyRequests, Code: web.CodeOverloaded, Detail: fmt.Sprintf("%d requests follow logs already", maxLogReaders)}
	}
	defer s.logs.readers.Add(-1)
	logHeaders(c)
	c.Response().WriteHeader(http.StatusOK)
	c.Response().Flush() // now the client knows that the job exists
	return s.sendLog(c, reader, end)
}

func logHeaders(c echo.Context) {
	h := c.Response().Header()
	h[echo.HeaderContentType] = []string{web.MIMEText + "; charset=utf-8"}
	h["X-Content-Type-Options"] = web.Nosniff
}

// sendLog sends a log to its reader: everything until the end of the job, or only the present text if end is nil.
func (s *Server) sendLog(c echo.Context, reader *joblog.Reader, end joblog.End) error {
	w, ended := c.Response(), false
	for {
		text, changed, _ := reader.Next()
		if len(text) > 0 {
			if _, err := w.Write(text); err != nil {
				return nil // the client hung up
			}
			continue
		}
		if end == nil && !w.Committed {
			w.WriteHeader(http.StatusOK)
		}
		if end == nil || ended {
			return nil
		}
		w.Flush()
		select {
		case <-changed:
		case <-end.Done():
			ended = true // the last part may have arrived just before
		case <-s.draining.Done():
			panic(http.ErrAbortHandler) // otherwise the client would take it for the end of the log
		case <-c.Request().Context().Done():
			return nil
		}
	}
}

// storedLog answers with the log of a job that has ended: the blob that the job names, or the text that is still in
// memory.
func (s *Server) storedLog(c echo.Context, j *job.Job) error {
	ref, err := blob.Parse(j.LogAddr)
	if err != nil || ref.SHA256 == nil || s.blobs.Storage == nil {
		if _, _, exists := s.logs.Reader(j.ID).Next(); !exists {
			return noLog("no log of the job is kept; its log_addr says if it is elsewhere; " + withLogs)
		}
		logHeaders(c)
		return s.sendLog(c, s.logs.Reader(j.ID), nil)
	}
	of, err := s.blobs.Storage.Store()
	if err != nil {
		return err
	}
	held, err := web.Hold(c, s.downloads, web.StreamBytes)
	defer held.Release()
	if err != nil {
		return err
	}
	b, err := of.Get(c.Request().Context(), j.Client, *ref.SHA256)
	if errors.Is(err, blob.ErrNotFound) {
		return noLog("the blob " + ref.String() + " with the log of the job was deleted")
	}
	if err != nil {
		return s.blobs.Damage(err)
	}
	defer b.Close() // it was only read
	if b.Info().Size <= files.VerifiedFirst {
		if err := s.blobs.Damage(b.Verify()); err != nil {
			return err
		}
	}
	logHeaders(c)
	if c.Request().Method == http.MethodHead {
		return c.NoContent(http.StatusOK)
	}
	return s.blobs.Send(c, b)
}
