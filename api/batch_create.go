package api

import (
	"mime"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// addToBatch answers POST /batches/{id}/jobs, which takes jobs in every form of a create.
func (s *creation) addToBatch(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	query := web.Parameters(c)
	a, form, err := command.QueryAttributes(query)
	if err != nil {
		return err
	}
	if kind, _, _ := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType)); kind == web.MIMEText {
		return s.addLines(c, &a, form, id)
	}
	if len(query) > 0 {
		return web.BadRequest(query[0].Key, query[0].Key+" is a parameter for lines of text/plain; jobs in JSON have their own attributes")
	}
	return s.createIn(c, id)
}

// openBatch returns the batch with an id, ready for more jobs, or nil if id is zero.
func (s *creation) openBatch(c echo.Context, id job.ID) (*command.OpenBatch, error) {
	if id.IsZero() {
		return nil, nil
	}
	if err := s.catchUp(c); err != nil {
		return nil, err
	}
	batch, err := s.engine.Batch(id)
	if err != nil {
		return nil, err
	}
	of := batch.Submission
	if of == nil {
		return nil, refusal.Err(job.BatchClosed)
	}
	return &command.OpenBatch{Id: id, Client: &of.Client, Typ: &of.Type, RetentionMs: &of.RetentionMs, Traceparent: web.OrNull(of.Traceparent), Meta: of.Meta}, nil
}

// createBatch creates a batch with attributes, and the jobs in Jobs.
func (s *creation) createBatch(c echo.Context, r *command.CreateRequest, body []byte) error {
	b := command.Bulk{Each: web.PrefersEach(c.Request()), Trace: command.TraceOf(c), Headers: c.Request().Header}
	if r.Batch == nil {
		return web.BadRequest("jobs", "jobs requires a batch; without one, the body is the list of the jobs")
	}
	jobs := r.Jobs
	r.Jobs = nil
	if err := b.BeginBatch(r); err != nil {
		return err
	}
	return s.createBulk(c, &b, body, func(_ []byte, take func(place string, text []byte) error) error {
		for i, text := range jobs {
			if err := take(web.Item("jobs", i), text); err != nil {
				return err
			}
		}
		return nil
	})
}
