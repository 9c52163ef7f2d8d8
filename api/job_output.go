package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/job"
)

// Headers that describe how a job has ended.
const (
	headerStatus     = "Daybook-Status"
	headerCode       = "Daybook-Code"
	headerExitCode   = "Daybook-Exit-Code"
	headerOutputAddr = "Daybook-Output-Addr"
)

var outputTypes = map[job.Kind]string{job.Text: web.MIMEText + "; charset=utf-8", job.JSON: web.MIMEJSON, job.Bytes: echo.MIMEOctetStream}

// output answers GET /jobs/{id}/output with the bytes of the output, or of the blob that is the output.
func (s *Server) output(c echo.Context) error {
	wait := time.Duration(0)
	for _, p := range web.Parameters(c) {
		ms, err := web.WholeNumber(p.Key, p.Value)
		if err == nil {
			err = web.BadField(p.Key, job.CheckRange(p.Key, *ms, 0, job.MaxWaitMs))
		}
		if err != nil {
			return err
		}
		wait = time.Duration(*ms) * time.Millisecond
	}
	id, err := s.idToRead(c)
	if err != nil {
		return err
	}
	if wait > 0 {
		if err := s.awaitEnd(c, id, wait); err != nil {
			return err
		}
	}
	j, held, err := s.readJob(c, s.documents, id)
	if err != nil {
		return err
	}
	defer held.Release()
	if !j.Status.Terminal() {
		return refusal.Err(job.HasNotEnded)
	}
	h := c.Response().Header()
	h.Set(headerStatus, j.Status.String())
	if j.Code != job.NoCode {
		h.Set(headerCode, j.Code.String())
		h.Set(headerExitCode, strconv.Itoa(j.ExitCode))
	}
	if j.OutputAddr != "" {
		h.Set(headerOutputAddr, headerText(j.OutputAddr))
	}
	if j.OutputKind == job.Nothing {
		if ref, err := blob.Parse(j.OutputAddr); err == nil && s.blobs.Storage != nil {
			of, err := s.blobs.Storage.Store()
			if err != nil {
				return err
			}
			held.Release() // the client may be slow to read
			// After a redrive the job may have another output, so a cache must ask each time.
			as := files.Representation{MediaType: cmp.Or(outputTypes[j.OutputAddrKind], echo.MIMEOctetStream), CacheControl: "no-cache"}
			return s.blobs.Answer(c, of, j.Client, ref, &as)
		}
		return c.NoContent(http.StatusNoContent)
	}
	return web.AnswerTagged(c, outputTypes[j.OutputKind], j.Output, j.Output)
}

// headerText returns a text as a header can carry it: it escapes other bytes as in the journal.
func headerText(text string) string { return string(job.AppendEscaped(nil, text)) }

// awaitEnd waits until a job has ended, the time is over or the client hangs up. It returns ErrShuttingDown if the
// server shuts down first.
func (s *Server) awaitEnd(c echo.Context, id job.ID, wait time.Duration) error {
	end, err := s.engine.AwaitEnd(id)
	if err != nil {
		return err
	}
	defer end.Stop()
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait)
	defer cancel()
	if err := s.catchUp(c); err != nil { // so that no end before the wait is missed
		return err
	}
	j, held, err := s.readJob(c, s.documents, id)
	held.Release()
	if err != nil || j.Status.Terminal() {
		return err
	}
	select {
	case <-end.Done():
	case <-s.draining.Done():
		return web.ErrShuttingDown
	case <-ctx.Done():
		return c.Request().Context().Err()
	}
	return nil
}
