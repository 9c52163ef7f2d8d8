package api

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/files"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
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

// outputs are the outputs of jobs that have ended.
type outputs struct {
	reader
	web      *web.Server
	blobs    *files.Blobs
	draining context.Context // done when the shutdown begins
}

func (s *outputs) routes(r operation.Rules) []route {
	ended := []string{headerStatus, headerCode, headerExitCode, headerOutputAddr}
	tagged := append([]string{"ETag"}, ended...)
	content := map[string]openapi.Shape{
		web.MIMEText: openapi.Plain(openapi.Of("string")), web.MIMEJSON: openapi.Plain(&openapi.Schema{}), echo.MIMEOctetStream: openapi.Plain(bytesSchema()),
	}
	return []route{
		written(r, http.MethodGet, "/jobs/:id/output", operation.About{
			ID: "output", Tag: "Reading", Summary: "Read the output of a job",
			Text: "The bytes of the output, as the content type says: a text, a JSON value as the runner sent it, or bytes. If the output\n" +
				"is a blob of this server, the bytes of the blob, with ranges; the content type is that of `output_addr_kind`, or\n" +
				"`application/octet-stream`.\n",
			Replies: []operation.Reply{
				{Status: http.StatusOK, Text: "the output", Headers: tagged, Content: content},
				{Status: http.StatusPartialContent, Text: "the part of a blob that Range names", Content: content},
				{Status: http.StatusNoContent, Text: "The job has ended without an output, or with an address that is not one of this server's blobs.", Headers: ended},
				{Status: http.StatusNotModified, Text: "The output has the ETag of the request.", Headers: tagged},
			},
			Refusals: []int{404, 409, 416, 503},
		}, s.read),
	}
}

// bytesSchema returns the schema of bytes that are no text.
func bytesSchema() *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{"string"}, Format: "binary"}
}

type outputQuery struct {
	onlyID
	WaitMs int64 `query:"wait_ms" minimum:"0" maximum:"60000" doc:"how long the server waits for the end of the job"`
	tagged
	Range string `header:"Range" read:"elsewhere" doc:"a part of an output that is a blob"`
	caughtUp
}

// read answers with the bytes of the output, or of the blob that is the output.
func (s *outputs) read(c echo.Context, in *outputQuery) error {
	if err := s.engine.CatchUp(c.Request().Context(), in.MinSeq); err != nil {
		return err
	}
	if in.WaitMs > 0 {
		if err := s.awaitEnd(c, in); err != nil {
			return err
		}
	}
	j, held, err := s.readJob(c, s.documents, in.ID)
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
			return s.web.Lasting(c, func(c echo.Context) error { return s.blobs.Answer(c, of, j.Client, ref, &as) })
		}
		return c.NoContent(http.StatusNoContent)
	}
	return web.AnswerTagged(c, outputTypes[j.OutputKind], j.Output, j.Output)
}

// headerText returns a text as a header can carry it: it escapes other bytes as in the journal.
func headerText(text string) string { return string(job.AppendEscaped(nil, text)) }

// awaitEnd waits until a job has ended, the time is over or the client hangs up. It returns ErrShuttingDown if the
// server shuts down first.
func (s *outputs) awaitEnd(c echo.Context, in *outputQuery) error {
	end, err := s.engine.AwaitEnd(in.ID)
	if err != nil {
		return err
	}
	defer end.Stop()
	ctx, cancel := context.WithTimeout(c.Request().Context(), time.Duration(in.WaitMs)*time.Millisecond)
	defer cancel()
	if err := s.engine.CatchUp(ctx, in.MinSeq); err != nil { // so that no end before the wait is missed
		return err
	}
	j, held, err := s.readJob(c, s.documents, in.ID)
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
