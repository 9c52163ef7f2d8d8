package api

import (
	"cmp"
	"mime"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// openBatch is the batch that a create adds jobs to, or that the create makes. A job inherits each of these attributes
// that it does not give: client, type, retention_ms, the traceparent, and meta under other names. Nil means that there
// is no batch.
type openBatch struct {
	id          job.ID
	client, typ *string
	retentionMs *int64
	traceparent *string
	meta        job.BatchMeta
}

// defaults gives a job the attributes that it inherits, except meta.
func (of *openBatch) defaults(a *attributes) {
	if of == nil {
		return
	}
	a.Client, a.Type = cmp.Or(a.Client, of.client), cmp.Or(a.Type, of.typ)
	a.RetentionMs, a.Traceparent = cmp.Or(a.RetentionMs, of.retentionMs), cmp.Or(a.Traceparent, of.traceparent)
}

// inherit adds the meta of the batch to a job's meta.
func (of *openBatch) inherit(g *job.Group) (err error) {
	if of != nil {
		g.Meta, err = of.meta.Inherited(g.Meta)
	}
	return web.BadField("meta", err)
}

// addToBatch answers POST /batches/{id}/jobs, which takes jobs in every form of a create.
func (s *Server) addToBatch(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	query := web.Parameters(c)
	a, form, err := queryAttributes(query)
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
func (s *Server) openBatch(c echo.Context, id job.ID) (*openBatch, error) {
	if id.IsZero() {
		return nil, nil
	}
	batch, err := s.batchAfter(c, id)
	if err != nil {
		return nil, err
	}
	of := batch.Submission
	if of == nil {
		return nil, refused(job.BatchClosed)
	}
	return &openBatch{id: id, client: &of.Client, typ: &of.Type, retentionMs: &of.RetentionMs, traceparent: web.OrNull(of.Traceparent), meta: of.Meta}, nil
}

// itemWhole takes a body that is a single item.
func itemWhole(body []byte, take func(place string, text []byte) error) error {
	return take(web.Item("jobs", 0), body)
}

// createBatch creates a batch with attributes, and the jobs in Jobs.
func (s *Server) createBatch(c echo.Context, r *createRequest, body []byte) error {
	b := bulk{each: web.PrefersEach(c.Request()), trace: traceOf(c), headers: c.Request().Header}
	if r.Batch == nil {
		return web.BadRequest("jobs", "jobs requires a batch; without one, the body is the list of the jobs")
	}
	jobs := r.Jobs
	r.Jobs = nil
	if err := b.beginBatch(r); err != nil {
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

// beginBatch turns the create into a create of a batch with attributes. In a list, the batch is the first item, and
// that item has no other fields.
func (b *bulk) beginBatch(r *createRequest) error {
	switch {
	case !b.cmd.Into.IsZero():
		field := "batch"
		if r.Batch == nil {
			field = "jobs"
		}
		return tooMany(field, "the batch is that of the path, and its attributes do not change; several jobs are a list, or lines")
	case r.Jobs != nil:
		return tooMany("jobs", "jobs stands only beside the batch of a body that is one object")
	case b.chained || b.of != nil || len(b.positions) > 0:
		return tooMany("batch", "batch stands only once, before all jobs of a create")
	case r.given():
		return tooMany("batch", "the attributes of jobs do not stand beside batch; client, type and retention_ms of a batch are in it")
	}
	submission, err := r.Batch.submission(b.headers)
	if err != nil {
		return web.Inside("batch", err)
	}
	trace := r.Batch.Traceparent
	if trace == nil && b.trace != nil {
		trace = b.trace
		submission.Traceparent = *trace
	}
	b.cmd.Submission = submission
	b.of = &openBatch{client: r.Batch.Client, typ: r.Batch.Type, retentionMs: r.Batch.RetentionMs, traceparent: trace, meta: submission.Meta}
	return nil
}

// given reports whether the request has other fields than a batch and jobs.
func (r *createRequest) given() bool {
	a := &r.attributes
	return len(r.Payload) > 0 || r.PayloadB64 != nil || r.BinaryAddr != nil || r.InputAddr != nil || r.UniqueKey != nil ||
		a.Client != nil || a.Type != nil || a.RunAt != nil || a.DelayMs != nil || a.Priority != nil || a.MaxAttempts != nil || a.Backoff != (backoff{}) ||
		a.LeaseMs != nil || a.RetentionMs != nil || a.ExpiresAt != nil || a.TimeoutMs != nil || a.Traceparent != nil || a.Meta != nil || a.OnComplete != nil
}

// groupOfNone returns the group of a batch without jobs. It holds the batch's client, type and retention_ms.
func (s *Server) groupOfNone(of *openBatch) ([]job.Group, error) {
	var a attributes
	of.defaults(&a)
	g, err := s.group(&a, s.engine.Now())
	return []job.Group{g}, web.Inside("batch", err)
}
