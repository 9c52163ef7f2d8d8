package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/openapi"
	"github.com/daybookq/daybook/api/internal/operation"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// batches are jobs that belong together.
type batches struct {
	reader
	draining context.Context // done when the shutdown begins
}

func (b batches) routes(r operation.Rules) []route {
	changing := answers{200: "the document after the change"}
	return []route{
		cold(r, http.MethodGet, "/batches", operation.About{
			ID: "batches", Tag: "Reading", Summary: "List batches",
			Text: "The list is in the order of the ids; with name_prefix, in the order of the names. A page may have fewer batches than\n" +
				"limit although more follow: next says whether there are more.\n",
			Answers: answers{200: "a page of batches"}, Refusals: []int{404, 503},
		}, b.list),
		cold(r, http.MethodGet, "/batches/:id", operation.About{
			ID: "batch", Tag: "Reading", Summary: "Read a batch", Answers: answers{200: "the document"}, Refusals: []int{404, 503},
		}, b.read).often(),
		written(r, http.MethodGet, "/batches/:id/metadata", operation.About{
			ID: "batchMetadata", Tag: "Reading", Summary: "Read the metadata of a batch", Refusals: []int{404, 503},
			Replies: []operation.Reply{
				{Status: http.StatusOK, Text: "the bytes that the producer gave", Headers: []string{"ETag"}, Content: map[string]openapi.Shape{echo.MIMEOctetStream: openapi.Plain(nil)}},
				{Status: http.StatusNoContent, Text: "The batch has none."},
				{Status: http.StatusNotModified, Text: "The metadata has the ETag of the request.", Headers: []string{"ETag"}},
			},
		}, b.metadata),
		cold(r, http.MethodPost, "/batches/:id/close", operation.About{
			ID: "closeBatch", Tag: "Moving", Summary: "Close an open batch",
			Text:    "The batch gets no more jobs. A batch that is closed stays as it is.",
			Answers: changing, Refusals: []int{404, 503, 507},
		}, b.close),
		cold(r, http.MethodPost, "/batches/:id/resume", operation.About{
			ID: "resumeBatch", Tag: "Moving", Summary: "Let a paused batch go",
			Text:    "The jobs of the batch become pending, or deferred until their run_at. A batch that is not paused stays as it is.",
			Answers: changing, Refusals: []int{404, 409, 503, 507},
		}, b.resume),
	}
}

type batchQuery struct {
	onlyID
	WaitMs int64 `query:"wait_ms" minimum:"0" maximum:"60000" doc:"how long the answer waits until the status changes; a batch that has ended is answered at once"`
	caughtUp
}

// taggedBatch is a batch. Basis has no progress, which depends on the time.
type taggedBatch struct{ Body, Basis batchDocument }

// read waits until the status changes if the request has wait_ms.
func (b batches) read(ctx context.Context, in *batchQuery) (out taggedBatch, err error) {
	if err := b.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	var batch document.Batch
	if in.WaitMs > 0 {
		batch, err = b.awaitStatus(ctx, in)
	} else {
		batch, err = b.engine.Batch(in.ID)
	}
	if err == nil {
		out.Body, err = b.document(ctx, &batch)
	}
	out.Basis = out.Body
	out.Basis.Progress = nil
	return out, err
}

// document returns the document of a batch, with the error of its failed job, if the job is still there.
func (b batches) document(ctx context.Context, batch *document.Batch) (batchDocument, error) {
	reason := ""
	if !batch.Failed.IsZero() {
		held := operation.Share(ctx, b.limits.documents)
		j, err := readJob(ctx, b.engine, held, batch.Failed)
		held.Release()
		if err != nil && !errors.Is(err, job.NotFound) {
			return batchDocument{}, err
		}
		reason = j.Error
	}
	return documentOfBatch(batch, reason, b.engine.Now()), nil
}

// awaitStatus waits until a batch changes its status, the time is over, the client hangs up or the server shuts down.
// It returns at once for a batch that has ended.
func (b batches) awaitStatus(ctx context.Context, in *batchQuery) (batch document.Batch, err error) {
	waiting, cancel := context.WithTimeout(ctx, time.Duration(in.WaitMs)*time.Millisecond)
	defer cancel()
	first := job.BatchStatus(0)
	for {
		change, err := b.engine.AwaitBatch(in.ID)
		if err != nil {
			return batch, err
		}
		if err = b.engine.CatchUp(ctx, in.MinSeq); err == nil {
			batch, err = b.engine.Batch(in.ID)
		}
		if first == 0 {
			first = batch.Status
		}
		if err != nil || batch.Status != first || batch.Status.Ended() {
			change.Stop()
			return batch, err
		}
		select {
		case <-change.Done():
		case <-b.draining.Done():
			err = web.ErrShuttingDown
		case <-waiting.Done():
		}
		change.Stop()
		if err == nil && waiting.Err() == nil {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		return batch, err
	}
}

type metadataQuery struct {
	onlyID
	tagged
	caughtUp
}

// metadata answers with the producer's bytes.
func (b batches) metadata(c echo.Context, in *metadataQuery) error {
	held, err := b.page(c, in.caughtUp, job.MaxBatchMetadataBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	metadata, err := b.engine.BatchMetadata(in.ID)
	if err != nil {
		return err
	}
	if metadata == nil {
		return c.NoContent(http.StatusNoContent)
	}
	return web.AnswerTagged(c, echo.MIMEOctetStream, metadata, metadata)
}

type batchesDocument struct {
	Batches []batchDocument `json:"batches"`
	Next    *string         `json:"next"`
}

type batchesQuery struct {
	Status     *string           `query:"status" enum:"in_progress,paused,completed,failed,cancelled" doc:"only batches with this status"`
	Client     string            `query:"client" schema:"Name" doc:"only batches of this client"`
	Type       string            `query:"type" schema:"Name" doc:"only batches of this type"`
	Name       *string           `query:"name" minLength:"1" maxLength:"256" doc:"only batches with this name"`
	NamePrefix *string           `query:"name_prefix" minLength:"1" maxLength:"256" doc:"only batches whose name begins so; not with name"`
	Meta       map[string]string `query:"meta." doc:"only batches whose meta has this name with this value, a text or the digits of an integer"`
	Order      *string           `query:"order" enum:"oldest,newest" doc:"oldest: by id. newest: the newest batch first; not with name_prefix. Default: oldest."`
	Limit      int               `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"batches of a page, at most; default: 100"`
	After      *string           `query:"after" schema:"BatchPlace" doc:"next of the page before, or the id of a batch; with name_prefix, 404 if there is no batch of that id"`
	caughtUp
}

// filter returns the batches that a list has.
func (in *batchesQuery) filter() (f query.BatchFilter, err error) {
	f = query.BatchFilter{Client: in.Client, Type: in.Type, Newest: in.Order != nil && *in.Order == "newest", Limit: in.Limit}
	if in.Status != nil {
		f.Status, err = job.ParseBatchStatus(*in.Status)
	}
	if in.Name != nil && err == nil {
		f.Name, err = *in.Name, command.CheckBatchName("name", *in.Name)
	}
	if in.NamePrefix != nil && err == nil {
		f.NamePrefix, err = *in.NamePrefix, command.CheckBatchName("name_prefix", *in.NamePrefix)
	}
	if in.After != nil && err == nil {
		f.After, err = placeOfBatch("after", *in.After)
	}
	if err == nil {
		f.Meta, err = in.Meta, checkLabels(in.Meta)
	}
	switch {
	case err != nil:
	case in.Name != nil && in.NamePrefix != nil:
		err = web.BadRequest("name_prefix", "a list has a name or a name_prefix")
	case in.Order != nil && in.NamePrefix != nil:
		err = web.BadRequest("order", "a list with a name_prefix is in the order of names")
	case f.After.Name != "" && in.NamePrefix == nil:
		err = web.BadRequest("after", "after has the name of a batch only with name_prefix")
	}
	return f, err
}

// list answers with a page of the batches that match the query.
func (b batches) list(ctx context.Context, in *batchesQuery) (out found[batchesDocument], err error) {
	filter, err := in.filter()
	if err != nil {
		return out, err
	}
	filter.Scope = job.KeyOf(ctx).By().Scope
	if err := b.engine.CatchUp(ctx, in.MinSeq); err != nil {
		return out, err
	}
	if err := operation.Hold(ctx, b.limits.documents, web.MaxRowsBytes); err != nil {
		return out, err
	}
	var list []document.Batch
	var next query.BatchPlace
	err = b.limits.pages.Do(ctx, func() error {
		list, next, err = b.engine.Batches(filter)
		return err
	})
	if err != nil {
		return out, err
	}
	out.Body = batchesDocument{make([]batchDocument, len(list)), web.OrNull(textOfPlace(next))}
	now := b.engine.Now()
	for i := range list {
		out.Body.Batches[i] = documentOfBatch(&list[i], "", now)
	}
	return out, nil
}

// textOfPlace returns the text form of a place in a list of batches: an id or, in a list by name_prefix, an id and a name
// with a slash between them. It is "" for no place.
func textOfPlace(p query.BatchPlace) string {
	switch {
	case p.IsZero():
		return ""
	case p.Name == "":
		return p.ID.String()
	}
	return p.ID.String() + "/" + p.Name
}

// placeOfBatch is the inverse of textOfPlace.
func placeOfBatch(key, text string) (p query.BatchPlace, err error) {
	id, name, named := strings.Cut(text, "/")
	if p.ID, err = queryID(key, id); err == nil && named {
		p.Name, err = name, command.CheckBatchName(key, name)
	}
	return p, err
}

func (b batches) close(ctx context.Context, in *onlyID) (changed[batchDocument], error) {
	return b.change(ctx, job.ChangeBatch{Op: job.CloseBatch, Batch: in.ID})
}

func (b batches) resume(ctx context.Context, in *onlyID) (changed[batchDocument], error) {
	return b.change(ctx, job.ChangeBatch{Op: job.ResumeBatch, Batch: in.ID})
}

// change answers with the document of the batch after the change.
func (b batches) change(ctx context.Context, cmd job.ChangeBatch) (out changed[batchDocument], err error) {
	result, receipt, err := b.engine.ChangeBatch(ctx, cmd)
	if err == nil {
		err = refusal.Err(result.Refusal)
	}
	if err != nil {
		return out, err
	}
	out.Seq = receipt.Seq
	if err := b.engine.CatchUp(ctx, receipt.Seq); err != nil {
		return out, refusal.After(err)
	}
	batch, err := b.engine.Batch(cmd.Batch)
	if err == nil {
		out.Body, err = b.document(ctx, &batch)
	}
	if err != nil {
		return out, refusal.After(err)
	}
	return out, nil
}
