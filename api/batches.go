package api

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/daybookq/daybook/api/internal/answer"
	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

type batchOperator interface {
	ChangeBatch(ctx context.Context, c job.ChangeBatch) (applied.BatchChanged, ingest.Receipt, error)
}

type batchReader interface {
	Batch(id job.ID) (document.Batch, error)
	BatchMetadata(id job.ID) ([]byte, error)
	LineOf(id job.ID) (batch job.ID, line int64, err error)
	Batches(f query.BatchFilter) (docs []document.Batch, next query.BatchPlace, err error)
	AwaitBatch(id job.ID) (*store.JobEnd, error)
	Results(id job.ID, from int64, limit int, room int64) (query.Results, error)
}

// batchDocument is the document of a batch. The fields after progress are null in a batch without attributes.
type batchDocument struct {
	BatchID     job.ID         `json:"batch_id"`
	Status      string         `json:"status"`
	CreatedAt   int64          `json:"created_at"`
	EndedAt     *int64         `json:"ended_at"`
	Count       int64          `json:"count"`
	Counts      answer.Counts  `json:"counts"`
	Purged      int64          `json:"purged"`
	FailedJobID *job.ID        `json:"failed_job_id"`
	Error       *string        `json:"error"`
	Progress    *batchProgress `json:"progress"`

	Name          *string        `json:"name"`
	Client        *string        `json:"client"`
	Type          *string        `json:"type"`
	Meta          jsontext.Value `json:"meta"`
	OnFailure     *string        `json:"on_failure"`
	ChunkSize     *int64         `json:"chunk_size"`
	Open          *bool          `json:"open"`
	MetadataBytes *int           `json:"metadata_bytes"`
	RetentionMs   *int64         `json:"retention_ms"`
	Snowflake     *int64         `json:"snowflake"`
	Traceparent   *string        `json:"traceparent"`
	Tracestate    *string        `json:"tracestate"`
	Baggage       *string        `json:"baggage"`
}

// batchProgress is the progress of an unfinished batch. The estimate is null while the batch is open, and if none of
// its jobs has ended lately.
type batchProgress struct {
	Ended      int64   `json:"ended"`
	PerSecond  float64 `json:"per_second"`
	EstimateMs *int64  `json:"estimate_ms"`
}

func progressOf(b *document.Batch, now int64) *batchProgress {
	if b.Status.Ended() {
		return nil
	}
	p := &batchProgress{Ended: b.Ended}
	if ms, n := now-b.Since, b.Ended-b.EndedBefore; ms > 0 && n > 0 {
		p.PerSecond = math.Round(float64(n)*1e6/float64(ms)) / 1e3
		if b.Submission == nil || !b.Submission.Open {
			p.EstimateMs = new(int64)
			*p.EstimateMs = int64(float64(b.Jobs-b.Ended) * float64(ms) / float64(n))
		}
	}
	return p
}

// documentOfBatch returns the document of a batch at a time. reason is the error of its failed job.
func documentOfBatch(b *document.Batch, reason string, now int64) batchDocument {
	doc := batchDocument{
		BatchID: b.ID, Status: b.Status.String(), CreatedAt: b.CreatedAt, EndedAt: web.OrNull(b.EndedAt), Count: b.Lines, Counts: answer.Counts(b.Counts),
		Purged: b.Lines - b.Counts.Total(), FailedJobID: web.OrNull(b.Failed), Error: web.OrNull(reason), Progress: progressOf(b, now),
		Meta: jsontext.Value("null"),
	}
	of := b.Submission
	if of == nil {
		return doc
	}
	onFailure := of.OnFailure.String()
	doc.Name, doc.Client, doc.Type, doc.OnFailure, doc.ChunkSize = web.OrNull(of.Name), &of.Client, &of.Type, &onFailure, web.OrNull(of.ChunkSize)
	doc.Open, doc.MetadataBytes, doc.RetentionMs, doc.Snowflake = &of.Open, &of.MetadataBytes, &of.RetentionMs, &of.Snowflake
	doc.Traceparent, doc.Tracestate, doc.Baggage = web.OrNull(of.Traceparent), web.OrNull(of.Tracestate), web.OrNull(of.Baggage)
	if of.Meta != "" {
		doc.Meta = jsonOfMeta(of.Meta)
	}
	return doc
}

// jsonOfMeta returns the meta of a batch as an object of texts and integers.
func jsonOfMeta(meta job.BatchMeta) jsontext.Value {
	b := []byte{'{'}
	for name, v := range meta.All() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(append(b, name...), '"', ':')
		if v.IsInteger {
			b = strconv.AppendInt(b, v.Integer, 10)
		} else {
			b = answer.AppendText(b, v.Text)
		}
	}
	return append(b, '}')
}

// batch answers GET /batches/{id}. With wait_ms it waits until the status changes.
func (s *Server) batch(c echo.Context) error {
	wait, err := waitOf(web.Parameters(c))
	if err != nil {
		return err
	}
	id, err := s.idToRead(c)
	if err != nil {
		return err
	}
	var batch document.Batch
	if wait > 0 {
		batch, err = s.awaitStatus(c, id, wait)
	} else {
		batch, err = s.engine.Batch(id)
	}
	if err != nil {
		return err
	}
	reason, err := s.errorOfBatch(c, &batch)
	if err != nil {
		return err
	}
	doc := documentOfBatch(&batch, reason, s.engine.Now())
	text, err := web.EncodeDocument(doc)
	if err != nil {
		return err
	}
	doc.Progress = nil // it depends on the time
	basis, err := web.EncodeDocument(doc)
	if err != nil {
		return err
	}
	return web.AnswerTagged(c, web.MIMEJSON, text, basis)
}

// errorOfBatch returns the error of the failed job of a batch, if the job is still there.
func (s *Server) errorOfBatch(c echo.Context, b *document.Batch) (string, error) {
	if b.Failed.IsZero() {
		return "", nil
	}
	j, held, err := s.readJob(c, s.documents, b.Failed)
	held.Release()
	if errors.Is(err, job.NotFound) {
		return "", nil
	}
	return j.Error, err
}

// waitOf reads the parameter wait_ms.
func waitOf(query []web.Parameter) (wait time.Duration, err error) {
	for _, p := range query {
		if p.Key != "wait_ms" {
			continue
		}
		ms, err := web.WholeNumber(p.Key, p.Value)
		if err == nil {
			err = web.BadField(p.Key, job.CheckRange(p.Key, *ms, 0, job.MaxWaitMs))
		}
		if err != nil {
			return 0, err
		}
		wait = time.Duration(*ms) * time.Millisecond
	}
	return wait, nil
}

// awaitStatus waits until a batch changes its status, the time is over, the client hangs up or the server shuts down.
// It returns at once for a batch that has ended.
func (s *Server) awaitStatus(c echo.Context, id job.ID, wait time.Duration) (document.Batch, error) {
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait)
	defer cancel()
	first := job.BatchStatus(0)
	for {
		change, err := s.engine.AwaitBatch(id)
		if err != nil {
			return document.Batch{}, err
		}
		batch, err := s.batchAfter(c, id)
		if first == 0 {
			first = batch.Status
		}
		if err != nil || batch.Status != first || batch.Status.Ended() {
			change.Stop()
			return batch, err
		}
		err = s.await(ctx, change)
		change.Stop()
		if err == nil && ctx.Err() == nil {
			continue
		}
		if err == nil {
			err = c.Request().Context().Err()
		}
		return batch, err
	}
}

// batchAfter reads a batch after the state has caught up.
func (s *Server) batchAfter(c echo.Context, id job.ID) (document.Batch, error) {
	if err := s.catchUp(c); err != nil {
		return document.Batch{}, err
	}
	return s.engine.Batch(id)
}

// await waits for a change or the end of ctx. It returns an error if the server shuts down first.
func (s *Server) await(ctx context.Context, change *store.JobEnd) error {
	select {
	case <-change.Done():
	case <-s.draining.Done():
		return web.ErrShuttingDown
	case <-ctx.Done():
	}
	return nil
}

// batchMetadata answers GET /batches/{id}/metadata with the producer's bytes.
func (s *Server) batchMetadata(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, job.MaxBatchMetadataBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	metadata, err := s.engine.BatchMetadata(id)
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

// batches answers GET /batches with a page of the batches that match the query.
func (s *Server) batches(c echo.Context) error {
	filter, err := batchesQuery(web.Parameters(c))
	if err != nil {
		return err
	}
	held, err := s.holdPage(c, web.MaxRowsBytes)
	if err != nil {
		return err
	}
	defer held.Release()
	var list []document.Batch
	var next query.BatchPlace
	err = s.pages.Do(c.Request().Context(), func() error {
		list, next, err = s.engine.Batches(filter)
		return err
	})
	if err != nil {
		return err
	}
	page := batchesDocument{make([]batchDocument, len(list)), web.OrNull(textOfPlace(next))}
	now := s.engine.Now()
	for i := range list {
		page.Batches[i] = documentOfBatch(&list[i], "", now)
	}
	text, err := web.EncodePage(c.Request().Context(), held, page)
	if err != nil {
		return err
	}
	return web.Answer(c, http.StatusOK, web.MIMEJSON, text)
}

func batchesQuery(query []web.Parameter) (f query.BatchFilter, err error) {
	f.Limit = web.DefaultPage
	for _, p := range query {
		key, value := p.Key, p.Value
		switch key {
		case "status":
			f.Status, err = job.ParseBatchStatus(value)
			err = web.BadField(key, err)
		case "client":
			f.Client, err = value, web.BadField(key, job.CheckName(key, value))
		case "type":
			f.Type, err = value, web.BadField(key, job.CheckName(key, value))
		case "name":
			f.Name, err = value, command.CheckBatchName(key, value)
		case "name_prefix":
			f.NamePrefix, err = value, command.CheckBatchName(key, value)
		case "limit":
			f.Limit, err = web.PageLimit(p)
		case "after":
			f.After, err = placeOfBatch(key, value)
		default:
			if f.Meta == nil {
				f.Meta = map[string]string{}
			}
			f.Meta[key[len(command.MetaPrefix):]] = value
			_, metaErr := job.NewMeta(f.Meta)
			err = web.BadField(web.Shortened(key), metaErr)
		}
		if err != nil {
			return f, err
		}
	}
	switch {
	case f.Name != "" && f.NamePrefix != "":
		err = web.BadRequest("name_prefix", "a list has a name or a name_prefix")
	case f.After.Name != "" && f.NamePrefix == "":
		err = web.BadRequest("after", "after has the name of a batch only with name_prefix")
	}
	return f, err
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

// changeBatch answers POST /batches/{id}/close and /resume with the document of the batch.
func (s *Server) changeBatch(op job.BatchOp) echo.HandlerFunc {
	return func(c echo.Context) error {
		id, err := pathID(c)
		if err != nil {
			return err
		}
		if err := web.NoBody(c, &s.bodies.optional); err != nil {
			return err
		}
		changed, receipt, err := s.engine.ChangeBatch(c.Request().Context(), job.ChangeBatch{Op: op, Batch: id})
		if err != nil {
			return err
		}
		if err := refusal.Err(changed.Refusal); err != nil {
			return err
		}
		web.SetSeq(c, receipt.Seq)
		return s.answerBatch(c, receipt, id)
	}
}

// answerBatch answers a change of a batch with its document.
func (s *Server) answerBatch(c echo.Context, r ingest.Receipt, id job.ID) error {
	if err := s.engine.CatchUp(c.Request().Context(), r.Seq); err != nil {
		return refusal.After(err)
	}
	batch, err := s.engine.Batch(id)
	if err != nil {
		return refusal.After(err)
	}
	reason, err := s.errorOfBatch(c, &batch)
	if err != nil {
		return refusal.After(err)
	}
	return web.AnswerDocument(c, http.StatusOK, documentOfBatch(&batch, reason, s.engine.Now()))
}
