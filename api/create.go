package api

import (
	"bytes"
	"cmp"
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

type creator interface {
	Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error)
	StartCreate(ctx context.Context, c *job.Create) (wait func() (applied.Made, ingest.Receipt, error))
}

// create answers POST /jobs/create. A JSON object is one job. An array, lines or runs are several jobs.
func (s *Server) create(c echo.Context) error { return s.createIn(c, job.ID{}) }

// createIn creates jobs, and adds them to a batch if one is given.
func (s *Server) createIn(c echo.Context, batch job.ID) error {
	rule := &s.bodies.creates
	if !batch.IsZero() {
		rule = &s.bodies.added
	}
	body, err := web.ReadBody(c, rule)
	if err != nil {
		return err
	}
	defer body.Release()
	of, err := s.openBatch(c, batch)
	if err != nil {
		return err
	}
	switch web.FormOf(c.Request()) {
	case web.MIMENDJSON:
		return s.createMany(c, body.Bytes, command.ItemLines, of)
	case web.MIMERuns:
		return s.createRuns(c, body.Bytes, of)
	}
	if first := bytes.TrimLeft(body.Bytes, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		return s.createMany(c, body.Bytes, command.ItemArray, of)
	}
	if of != nil {
		return s.createMany(c, body.Bytes, command.ItemWhole, of)
	}
	return s.createOne(c, body.Bytes)
}

// createOne creates one job. A create without keys does not wait until it is applied, because the document of the job
// follows from the request and the receipt alone.
func (s *Server) createOne(c echo.Context, body []byte) error {
	var r command.CreateRequest
	if err := web.DecodeObject(body, &r); err != nil {
		return err
	}
	if r.Batch != nil || r.Jobs != nil {
		return s.createBatch(c, &r, body)
	}
	r.Traceparent = cmp.Or(r.Traceparent, command.TraceOf(c))
	cmd, payload, err := s.decode.OneJob(&r)
	if err != nil {
		return err
	}
	g, unique := cmd.Groups[0], ""
	if r.UniqueKey != nil {
		unique = *r.UniqueKey
	}
	if cmd.Once, err = web.Once(c, "create", g.Client, body); err != nil {
		return err
	}
	cmd.Joined = len(cmd.Unique) == 0 && !cmd.Once.Given()
	made, receipt, err := s.engine.Create(c.Request().Context(), cmd)
	if err != nil {
		return err
	}
	web.SetSeq(c, receipt.Seq)
	web.SetReplayed(c, made.Replayed)
	if len(made.Existing) > 0 {
		return s.answerExisting(c, receipt, made.Existing[0].Job)
	}
	g = made.Group // if the request is a repeat: the group that the first request created
	id := made.Job(0)
	first := job.Admit(&g.Attributes, job.Now{Seq: receipt.Seq, At: receipt.At})
	j := g.Document(&first)
	j.ID, j.Batch, j.Client, j.Type, j.CreatedAt = id, made.Batch, g.Client, g.Type, receipt.At
	j.Payload, j.UniqueKey = payload, unique
	c.Response().Header().Set(echo.HeaderLocation, "/jobs/"+id.String())
	held := web.ShareOf(c, s.changes)
	defer held.Release()
	return web.WithBuffer(func(b []byte) ([]byte, error) {
		if b = answer.AppendJob(b, &j, answer.InJSON); unique != "" {
			b = withLastField(b, createdField)
		} else {
			b = append(b, '\n')
		}
		return b, answerStored(c, held, http.StatusCreated, b)
	})
}

// answerExisting answers a create that created no job, because an unfinished job has the unique key. The answer is the
// document of that job.
func (s *Server) answerExisting(c echo.Context, r ingest.Receipt, id job.ID) error {
	j, held, err := s.readJobAfter(c, r, id)
	defer held.Release()
	var b []byte
	switch {
	case err == job.NotFound: // the job has ended and was purged since, so its status is unknown
		b = answer.AppendGone(nil, id, 0)
	case err != nil:
		return refusal.After(err)
	default:
		b = answer.AppendJob(nil, &j, answer.InJSON)
	}
	c.Response().Header().Set(echo.HeaderLocation, "/jobs/"+id.String())
	return answerStored(c, held, http.StatusOK, withLastField(b, existingField))
}

// The last field of the answer to a create with a unique key says whether an unfinished job had that key.
const (
	createdField  = `"existing":false`
	existingField = `"existing":true`
)

// withLastField adds a field to a document that ends in its closing brace.
func withLastField(document []byte, field string) []byte {
	document = append(document[:len(document)-1], ',')
	document = append(document, field...)
	return append(document, "}\n"...)
}
