package stockclient

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/opsqueue/wire"
)

// Work is a submission whose chunks are in an object store.
type Work struct {
	Chunks    [][]byte
	Metadata  []byte
	Strategic wire.Metadata
	ChunkSize *int64
}

// SubmissionFailedError is returned for a submission that failed.
type SubmissionFailedError struct{ wire.FailedWithChunk }

func (e *SubmissionFailedError) Error() string {
	return fmt.Sprintf("submission %s failed: chunk %d: %s", e.Submission.ID, e.Chunk.Index, e.Chunk.Failure)
}

// InsertWork puts the chunks into the object store, one after the other, and then creates the submission. It returns the
// prefix, too, although the original learns that only from the status.
func (p *Producer) InsertWork(ctx context.Context, objects *ObjectStore, w Work) (wire.SubmissionID, string, error) {
	prefix := newPrefix(time.Now())
	for i, content := range w.Chunks {
		objects.put(objectKey(prefix, int64(i), "in"), content)
	}
	id, err := p.Insert(ctx, wire.InsertSubmission{
		Chunks:   wire.ChunkContents{SeeObjectStorage: &wire.SeeObjectStorage{Prefix: prefix, Count: int64(len(w.Chunks))}},
		Metadata: w.Metadata, StrategicMetadata: w.Strategic, ChunkSize: w.ChunkSize,
	}, nil)
	return id, prefix, err
}

// Run inserts a submission, waits for its end, and returns its results in the order of the chunks.
func (p *Producer) Run(ctx context.Context, objects *ObjectStore, w Work) ([][]byte, error) {
	id, _, err := p.InsertWork(ctx, objects, w)
	if err != nil {
		return nil, err
	}
	return p.Results(ctx, objects, id)
}

// Results waits for the end of a submission and returns its results. It requests the status after 10 ms, then after twice
// as long each time, up to 5 s. It returns a SubmissionFailedError if the submission failed. As in the original, it waits
// until ctx ends if the submission is unknown or was cancelled.
func (p *Producer) Results(ctx context.Context, objects *ObjectStore, id wire.SubmissionID) ([][]byte, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		status, err := p.Status(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case status != nil && status.Failed != nil:
			return nil, &SubmissionFailedError{*status.Failed}
		case status != nil && status.Completed != nil:
			return results(objects, status.Completed)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func results(objects *ObjectStore, s *wire.SubmissionCompleted) ([][]byte, error) {
	if s.Prefix == nil {
		return nil, errors.New("the submission has no prefix: the server keeps its results and has no route for them")
	}
	out := make([][]byte, s.ChunksTotal)
	for i := range out {
		key := objectKey(*s.Prefix, int64(i), "out")
		content, ok := objects.get(key)
		if !ok {
			return nil, fmt.Errorf("submission %s is completed, and the object %s does not exist", s.ID, key)
		}
		out[i] = content
	}
	return out, nil
}

// newPrefix returns a UUID of version 7 as text.
func newPrefix(now time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
