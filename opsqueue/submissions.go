package opsqueue

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// errTooMany reports that a lookup matches more submissions than the server returns.
var errTooMany = errors.New("too many submissions match")

// isSubmission reports whether a batch's jobs are chunks, so that this protocol shows it.
func isSubmission(b *document.Batch) bool {
	return b.Submission != nil && b.Submission.Client == Client && b.Submission.Type == Type
}

// batchOf returns the batch of a submission, or job.BatchNotFound.
func (s *Server) batchOf(id wire.SubmissionID) (job.ID, document.Batch, error) {
	batch, err := s.state.BatchOfSnowflake(int64(id))
	if err != nil {
		return batch, document.Batch{}, err
	}
	doc, err := s.state.Batch(batch)
	if err == nil && !isSubmission(&doc) {
		err = job.BatchNotFound
	}
	return batch, doc, err
}

// status returns the status of a submission, or job.BatchNotFound.
func (s *Server) status(ctx context.Context, id wire.SubmissionID) (*wire.SubmissionStatus, error) {
	if err := s.engine.CatchUp(ctx, 0); err != nil {
		return nil, err
	}
	_, doc, err := s.batchOf(id)
	if err != nil {
		return nil, err
	}
	return s.statusOf(&doc)
}

// statusOf returns the status of a batch. A paused batch is in progress, since the protocol lacks a word for it.
func (s *Server) statusOf(doc *document.Batch) (*wire.SubmissionStatus, error) {
	about, err := s.about(doc)
	if err != nil {
		return nil, err
	}
	now := about.at(doc.Lines, doc.Submission.Completed)
	ended := time.UnixMilli(doc.EndedAt).UTC()
	switch doc.Status {
	case job.BatchCompleted:
		return &wire.SubmissionStatus{Completed: &wire.SubmissionCompleted{
			ID: now.ID, Prefix: now.Prefix, ChunksTotal: now.ChunksTotal, ChunkSize: now.ChunkSize, Metadata: now.Metadata,
			StrategicMetadata: now.StrategicMetadata, OtelTraceCarrier: now.OtelTraceCarrier, CompletedAt: ended,
		}}, nil
	case job.BatchCancelled:
		return &wire.SubmissionStatus{Cancelled: &wire.SubmissionCancelled{
			ID: now.ID, Prefix: now.Prefix, ChunksTotal: now.ChunksTotal, ChunksDone: now.ChunksDone, Metadata: now.Metadata,
			StrategicMetadata: now.StrategicMetadata, CancelledAt: ended,
		}}, nil
	case job.BatchFailed:
		chunk, err := s.failedChunk(doc, now.ID)
		if err != nil {
			return nil, err
		}
		return &wire.SubmissionStatus{Failed: &wire.FailedWithChunk{Chunk: chunk, Submission: wire.SubmissionFailed{
			ID: now.ID, Prefix: now.Prefix, ChunksTotal: now.ChunksTotal, ChunksDone: &now.ChunksDone, ChunkSize: now.ChunkSize, Metadata: now.Metadata,
			StrategicMetadata: now.StrategicMetadata, OtelTraceCarrier: now.OtelTraceCarrier, FailedAt: ended, FailedChunkIndex: chunk.Index,
		}}}, nil
	}
	return &wire.SubmissionStatus{InProgress: &now}, nil
}

// failedChunk returns the chunk for which a submission failed. If the chunk is purged, only its index is known.
func (s *Server) failedChunk(doc *document.Batch, id wire.SubmissionID) (wire.ChunkFailed, error) {
	chunk := wire.ChunkFailed{ChunkID: wire.ChunkID{SubmissionID: id}, FailedAt: time.UnixMilli(doc.EndedAt).UTC()}
	if doc.Failed.IsZero() {
		return chunk, nil
	}
	_, index, err := s.state.LineOf(doc.Failed)
	if err != nil {
		return chunk, err
	}
	chunk.Index = index
	failed, err := s.state.Job(doc.Failed)
	if errors.Is(err, job.NotFound) {
		return chunk, nil
	}
	chunk.InputContent, chunk.Failure, chunk.FailedAt = inputContent(failed.Kind, failed.Payload), failed.Error, time.UnixMilli(failed.CompletedAt).UTC()
	return chunk, err
}

// inputContent returns the content of a chunk, or nil if it is in the object store.
func inputContent(kind job.Kind, payload []byte) []byte {
	switch {
	case kind == job.Nothing:
		return nil
	case payload == nil:
		return []byte{}
	}
	return payload
}

// cancel cancels a submission. If the submission has already ended, cancel returns its status. It returns
// job.BatchNotFound if there is none.
func (s *Server) cancel(ctx context.Context, id wire.SubmissionID) (ended *wire.SubmissionStatus, err error) {
	// The engine would grant two concurrent cancels. The second must report that the submission has ended.
	s.cancelling.Lock()
	defer s.cancelling.Unlock()
	if err := s.engine.CatchUp(ctx, 0); err != nil {
		return nil, err
	}
	batch, doc, err := s.batchOf(id)
	if err != nil {
		return nil, err
	}
	if doc.Status.Ended() {
		return s.statusOf(&doc)
	}
	swept, _, err := s.engine.MoveAll(ctx, job.Move{Op: job.Cancel, Batch: batch})
	if err == nil && swept.Refusal != job.Granted && swept.Refusal != job.BatchEnded {
		err = swept.Refusal
	}
	if err != nil || swept.Refusal == job.Granted {
		return nil, err
	}
	if doc, err = s.state.Batch(batch); err != nil {
		return nil, err
	}
	return s.statusOf(&doc)
}

// lookupPrefix returns the submission with a prefix, unless it was cancelled. ok is false if there is none.
func (s *Server) lookupPrefix(ctx context.Context, prefix string) (id wire.SubmissionID, ok bool, err error) {
	if prefix == "" || job.CheckBatchName(prefix) != nil { // no submission can have it
		return 0, false, nil
	}
	err = s.each(ctx, query.BatchFilter{Name: prefix, Client: Client, Type: Type}, func(doc *document.Batch) bool {
		if doc.Status != job.BatchCancelled {
			id, ok = wire.SubmissionID(doc.Submission.Snowflake), true
		}
		return !ok
	})
	return id, ok, err
}

// lookupMetadata returns the submissions in progress that have all of the pairs, in ascending order. It returns
// errTooMany if there are more than MaxSubmissionsReturned.
func (s *Server) lookupMetadata(ctx context.Context, pairs wire.Metadata) (ids []wire.SubmissionID, err error) {
	filter := query.BatchFilter{Status: job.BatchInProgress, Client: Client, Type: Type, Meta: map[string]string{}}
	for key, value := range pairs {
		name, ok := metaName(key)
		if !ok {
			return nil, nil // no submission has such a key
		}
		filter.Meta[name] = job.MetaValue{Integer: value, IsInteger: true}.String()
	}
	tooMany := false
	err = s.each(ctx, filter, func(doc *document.Batch) bool {
		tooMany = int64(len(ids)) == s.config.MaxSubmissionsReturned
		ids = append(ids, wire.SubmissionID(doc.Submission.Snowflake))
		return !tooMany
	})
	if tooMany {
		err = errTooMany
	}
	return ids, err
}

// each calls visit for the submissions that match a filter, in the order of creation, until visit returns false.
func (s *Server) each(ctx context.Context, f query.BatchFilter, visit func(doc *document.Batch) bool) error {
	if err := s.engine.CatchUp(ctx, 0); err != nil {
		return err
	}
	f.Attributed = true // true for all submissions; the server may have any number of other batches
	for f.Limit = job.MaxPage; ; {
		docs, next, err := s.state.Batches(f)
		if err != nil {
			return err
		}
		for i := range docs {
			if isSubmission(&docs[i]) && !visit(&docs[i]) {
				return nil
			}
		}
		if next.IsZero() || ctx.Err() != nil {
			return ctx.Err()
		}
		f.After = next
	}
}
