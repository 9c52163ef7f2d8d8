package opsqueue

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/opsqueue/wire"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

const (
	// maxChunks bounds the chunks of a submission. A record of the journal can create up to job.MaxLines of them.
	maxChunks = 1 << 32
	// defaultChunkSize is the chunk_size of a submission that does not set it.
	defaultChunkSize = 1
	// minRetentionMs is the minimum time for which an ended submission is kept. A producer asks every 5 s, and waits for
	// ever if the submission is unknown. The original removes ended submissions once a minute.
	minRetentionMs = 10_000
)

// refusedInsert is the reason for which a submission is refused, with status 422.
type refusedInsert struct{ reason string }

func (e *refusedInsert) Error() string { return e.reason }

func refuseInsert(format string, args ...any) error {
	return &refusedInsert{fmt.Sprintf(format, args...)}
}

// insert creates a submission. It returns its id when the submission is on disk.
func (s *Server) insert(ctx context.Context, r *wire.InsertSubmission, h http.Header) (wire.SubmissionID, error) {
	submission, group, err := s.describe(r, h)
	if err != nil {
		return 0, err
	}
	if r.Chunks.Direct != nil {
		return s.create(ctx, contents(submission, group, r.Chunks.Direct.Contents))
	}
	left := r.Chunks.SeeObjectStorage.Count
	group.Lines = int(min(left, job.MaxLines))
	left -= int64(group.Lines)
	submission.Open, submission.Paused = left > 0, left > 0
	first := &job.Create{Submission: submission, Groups: []job.Group{group}}
	if left == 0 {
		return s.create(ctx, first)
	}
	return s.createInParts(ctx, first, left)
}

// describe returns the attributes of the whole batch, and of its jobs.
func (s *Server) describe(r *wire.InsertSubmission, h http.Header) (*job.Submission, job.Group, error) {
	submission := &job.Submission{OnFailure: job.CancelRest, Metadata: r.Metadata, ChunkSize: defaultChunkSize}
	group := job.Group{Client: Client, Type: Type, Attributes: job.Attributes{
		MaxAttempts: s.config.attempts(), LeaseMs: s.config.leaseMs(),
		RetentionMs: min(max(s.config.MaxSubmissionAge.Milliseconds(), minRetentionMs), job.MaxDelayMs),
	}}
	if stored := r.Chunks.SeeObjectStorage; stored != nil {
		submission.Name = stored.Prefix
		switch err := job.CheckBatchName(stored.Prefix); {
		case stored.Prefix == "":
			return nil, group, refuseInsert("prefix is empty")
		case err != nil:
			return nil, group, refuseInsert("prefix: %v", err)
		case stored.Count > maxChunks:
			return nil, group, refuseInsert("count is %d; the maximum is %d", stored.Count, int64(maxChunks))
		}
	}
	if n := len(r.Metadata); n > job.MaxBatchMetadataBytes {
		return nil, group, refuseInsert("metadata has %d bytes; the maximum is %d", n, job.MaxBatchMetadataBytes)
	}
	if r.ChunkSize != nil {
		submission.ChunkSize = *r.ChunkSize
	}
	var err error
	if submission.Meta, err = batchMeta(r.StrategicMetadata); err == nil {
		group.Meta, err = submission.Meta.Inherited("")
	}
	if err != nil {
		return nil, group, &refusedInsert{err.Error()}
	}
	readTrace(h, submission)
	group.Traceparent = submission.Traceparent
	return submission, group, nil
}

// contents returns the command that creates a submission whose chunks are in the request. A chunk without content becomes
// a job without a payload.
func contents(submission *job.Submission, like job.Group, chunks [][]byte) *job.Create {
	c := &job.Create{Submission: submission}
	size := 0
	for _, content := range chunks {
		kind := job.Bytes
		if content == nil {
			kind = job.Nothing
		}
		if last := len(c.Groups) - 1; last < 0 || c.Groups[last].Kind != kind && len(c.Groups) < job.MaxGroups {
			like.Kind = kind
			c.Groups = append(c.Groups, like)
		}
		c.Groups[len(c.Groups)-1].Lines++
		c.Longest = max(c.Longest, len(content))
		size += job.LenFrame.Size(len(content))
	}
	if len(chunks) == 0 {
		c.Groups = []job.Group{like}
		return c
	}
	c.Frame = job.LenFrame
	c.Payloads = make([]byte, 0, size)
	for _, content := range chunks {
		c.Payloads = job.LenFrame.Append(c.Payloads, content)
	}
	return c
}

func (s *Server) create(ctx context.Context, c *job.Create) (wire.SubmissionID, error) {
	made, receipt, err := s.engine.Create(ctx, c)
	if err != nil {
		return 0, err
	}
	s.metrics.inserted(int64(made.Lines))
	return wire.SubmissionID(job.Snowflake(receipt.At, receipt.Seq)), nil
}

// createInParts creates a submission with more chunks than one record of the journal can create. The submission is open
// and paused until it has all of them. If the server is killed before that, the next server cancels it: its producer got
// no answer, and creates the submission again.
func (s *Server) createInParts(ctx context.Context, first *job.Create, left int64) (wire.SubmissionID, error) {
	made, receipt, err := s.engine.Create(ctx, first)
	if err != nil {
		return 0, err
	}
	chunks := int64(made.Lines)
	for left > 0 {
		group := first.Groups[0]
		group.Lines = int(min(left, job.MaxLines))
		if _, _, err := s.engine.Create(ctx, &job.Create{Into: made.Batch, Groups: []job.Group{group}}); err != nil {
			return 0, s.giveUp(made.Batch, err)
		}
		left -= int64(group.Lines)
		chunks += int64(group.Lines)
	}
	for _, op := range []job.BatchOp{job.CloseBatch, job.ResumeBatch} {
		if _, _, err := s.engine.ChangeBatch(ctx, job.ChangeBatch{Op: op, Batch: made.Batch}); err != nil {
			return 0, s.giveUp(made.Batch, err)
		}
	}
	s.metrics.inserted(chunks)
	return wire.SubmissionID(job.Snowflake(receipt.At, receipt.Seq)), nil
}

// giveUpWait bounds the cancellation of a submission that could not be filled.
const giveUpWait = 5 * time.Second

// giveUp cancels a submission that could not be filled, and returns the error why.
func (s *Server) giveUp(batch job.ID, why error) error {
	if err := s.cancelIncomplete(batch); err != nil {
		s.log.Warn("a submission that is not complete cannot be cancelled; the next start cancels it", "batch_id", batch.String(), "error", err)
	}
	return why
}

// cancelIncomplete cancels a submission that does not have all its chunks.
func (s *Server) cancelIncomplete(batch job.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), giveUpWait)
	defer cancel()
	_, _, err := s.engine.MoveAll(ctx, job.Move{Op: job.Cancel, Batch: batch})
	return err
}

// eachUnfilled calls visit for the submissions that an earlier server could not fill. It cannot distinguish them from
// batches of Daybook's own API that are open and paused in the queue of chunks, and visits those, too. It stops at the
// first error of visit, and returns it.
func (s *Server) eachUnfilled(before int64, visit func(doc *document.Batch) error) error {
	var failed error
	err := s.each(s.running, query.BatchFilter{Status: job.BatchPaused, Client: Client, Type: Type}, func(doc *document.Batch) bool {
		if doc.Submission.Open && doc.CreatedAt < before {
			failed = visit(doc)
		}
		return failed == nil
	})
	return cmp.Or(failed, err)
}
