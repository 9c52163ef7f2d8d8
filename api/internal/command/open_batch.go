package command

import (
	"cmp"
	"reflect"

	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

// OpenBatch is the batch that a create adds jobs to, or that the create makes. A job inherits each of these attributes
// that it does not give: client, type, retention_ms, the traceparent, and meta under other names. Nil means that there
// is no batch.
type OpenBatch struct {
	Id          job.ID
	Client, Typ *string
	RetentionMs *int64
	Traceparent *string
	Meta        job.BatchMeta
}

// Defaults gives a job the attributes that it inherits, except meta.
func (of *OpenBatch) Defaults(a *Attributes) {
	if of == nil {
		return
	}
	a.Client, a.Type = cmp.Or(a.Client, of.Client), cmp.Or(a.Type, of.Typ)
	a.RetentionMs, a.Traceparent = cmp.Or(a.RetentionMs, of.RetentionMs), cmp.Or(a.Traceparent, of.Traceparent)
}

// Inherit adds the meta of the batch to a job's meta.
func (of *OpenBatch) Inherit(g *job.Group) (err error) {
	if of != nil {
		g.Meta, err = of.Meta.Inherited(g.Meta)
	}
	return web.BadField("meta", err)
}

// ItemWhole takes a body that is a single item.
func ItemWhole(body []byte, take func(place string, text []byte) error) error {
	return take(web.Item("jobs", 0), body)
}

// BeginBatch turns the create into a create of a batch with attributes. In a list, the batch is the first item, and
// that item is without other fields.
func (b *Bulk) BeginBatch(r *CreateRequest) error {
	switch {
	case !b.Cmd.Into.IsZero():
		field := "batch"
		if r.Batch == nil {
			field = "jobs"
		}
		return tooMany(field, "the batch is that of the path, and its attributes do not change; several jobs are a list, or lines")
	case r.Jobs != nil:
		return tooMany("jobs", "jobs stands only beside the batch of a body that is one object")
	case b.chained || b.Of != nil || len(b.positions) > 0:
		return tooMany("batch", "batch stands only once, before all jobs of a create")
	case r.given():
		return tooMany("batch", "the attributes of jobs do not stand beside batch; client, type and retention_ms of a batch are in it")
	}
	submission, err := r.Batch.submission(b.Headers)
	if err != nil {
		return web.Inside("batch", err)
	}
	trace := r.Batch.Traceparent
	if trace == nil && b.Trace != nil {
		trace = b.Trace
		submission.Traceparent = *trace
	}
	b.Cmd.Submission = submission
	b.Of = &OpenBatch{Client: r.Batch.Client, Typ: r.Batch.Type, RetentionMs: r.Batch.RetentionMs, Traceparent: trace, Meta: submission.Meta}
	return nil
}

// given reports whether the request has other fields than a batch and jobs.
func (r *CreateRequest) given() bool {
	return len(r.Payload) > 0 || r.PayloadB64 != nil || r.BinaryAddr != nil || r.InputAddr != nil || r.UniqueKey != nil || !reflect.ValueOf(r.Attributes).IsZero()
}

// GroupOfNone returns the group of a batch without jobs. It holds the batch's client, type and retention_ms.
func (s *Decoder) GroupOfNone(of *OpenBatch) ([]job.Group, error) {
	var a Attributes
	of.Defaults(&a)
	g, err := s.Group(&a, s.Now())
	return []job.Group{g}, web.Inside("batch", err)
}
