package chunks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/job"
)

// ConsumeOptions are the options of Consume.
type ConsumeOptions struct {
	// Worker configures the claims: its Client is required, and has Types, Clients, Strategy and Concurrency, for example.
	// Handler and Take must be nil.
	Worker worker.Worker
	// Store, if not nil, makes Consume read the payloads that are stored by address, and store long outputs in the same
	// way.
	Store *Store
}

// Chunk is a job of a batch, with a description of the batch.
type Chunk struct {
	*client.Job            // with its whole payload, also if it is stored by address
	Batch       *BatchInfo // shared by all chunks of the batch: it must not be changed; nil if the job belongs to no batch
	Line        int64      // the number of the chunk in the batch, from 0 on
}

// BatchInfo holds the attributes that a batch was created with.
type BatchInfo struct {
	ID        string
	Name      string
	CreatedAt int64                     // unix ms
	Meta      map[string]jsontext.Value // texts and integers, as JSON; the chunk's own Meta has them as texts
	Metadata  []byte
	ChunkSize int64

	Traceparent, Tracestate, Baggage string // the trace context of the producer
}

const (
	// infoBytes bounds the batches that Consume remembers. Metadata has up to 1 MiB for each batch, and the other
	// fields count as infoBase bytes.
	infoBytes, infoBase = 32 << 20, 8 << 10
	// maxParts is how many requests that filled batches Consume remembers.
	maxParts = 10_000
)

// Consume calls work with each chunk of batches that it claims, o.Worker.Concurrency at a time, until ctx ends. Then it
// drains, and returns the error of Worker.Run. A chunk completes with the outcome that work returns. If work returns an
// error, the rules of Handler hold: the chunk runs again after its backoff, or fails for good with Fail. If Consume
// itself fails to handle a chunk, for example because it cannot read it, this counts as an error of work. The context
// of work is the context of a Handler.
//
// Consume reads the attributes of a batch once, and remembers them while its chunks arrive. Jobs outside of such
// batches are chunks as well; each create that made them is a batch.
func Consume(ctx context.Context, o ConsumeOptions, work func(ctx context.Context, chunk *Chunk) (client.Outcome, error)) error {
	w := o.Worker
	if w.Client == nil || w.Handler != nil || w.Take != nil || work == nil {
		return errors.New("consume: a function and the Client of the Worker are required, and its Handler and Take must be nil")
	}
	r := newChunkReader(w.Client, o.Store)
	w.Handler = func(ctx context.Context, j *client.Job) (client.Outcome, error) {
		chunk, err := r.chunk(ctx, j)
		if err != nil {
			return client.Outcome{}, err
		}
		out, err := work(ctx, chunk)
		if o.Store == nil || err == worker.ErrUnget { // the Is method of a typed nil may panic
			return out, err
		}
		if failed := o.Store.putOutput(ctx, w.Client, j.Client, &out); failed != nil {
			if errors.Is(failed, client.ErrTooLarge) || errors.Is(failed, client.ErrBadRequest) { // it would fail again
				failed = worker.Fail(failed)
			}
			out.Output, out.OutputKind = nil, client.None
			if err == nil {
				return out, failed
			}
			return out, fmt.Errorf("%w; its output is lost: %v", err, failed) // the first error decides whether the chunk runs again
		}
		return out, err
	}
	return w.Run(ctx)
}

// chunkReader makes chunks of jobs.
type chunkReader struct {
	c       *client.Client
	chunks  *Store // may be nil
	batches *cache[string, *BatchInfo]
	parts   *cache[job.ID, int64]     // the line of the first job of a request that filled a batch, by the id of that job
	last    atomic.Pointer[batchPart] // of the last chunk: most chunks then need no look into the caches, which have locks
}

// batchPart is the part of a batch that one request created.
type batchPart struct {
	first job.ID // the id of its first job
	line  int64  // of that job
	batch *BatchInfo
}

func newChunkReader(c *client.Client, chunks *Store) *chunkReader {
	r := &chunkReader{c: c, chunks: chunks}
	r.batches = newCache(infoBytes, func(b *BatchInfo) int { return infoBase + len(b.Metadata) }, r.readBatch)
	r.parts = newCache(maxParts, func(int64) int { return 1 }, r.readPart)
	return r
}

func (r *chunkReader) chunk(ctx context.Context, j *client.Job) (*Chunk, error) {
	chunk := &Chunk{Job: j}
	if r.chunks != nil {
		if err := r.chunks.loadPayload(ctx, r.c, j); err != nil {
			return nil, err
		}
	}
	if j.BatchID == "" {
		return chunk, nil
	}
	id, err := job.ParseID(j.ID)
	if err != nil {
		return nil, fmt.Errorf("%w: the id of a job: %w", client.ErrUnexpectedAnswer, err)
	}
	of := r.last.Load()
	if first := id.WithLine(0); of == nil || of.first != first {
		if of, err = r.part(ctx, first, j.BatchID); err != nil {
			return nil, err
		}
		r.last.Store(of)
	}
	chunk.Batch, chunk.Line = of.batch, of.line+int64(id.Line())
	return chunk, nil
}

// part returns the part of a batch that a request created.
func (r *chunkReader) part(ctx context.Context, first job.ID, batch string) (*batchPart, error) {
	of := batchPart{first: first}
	var err error
	if first.String() != batch { // it is not the request that created the batch
		if of.line, err = r.parts.get(ctx, first); err != nil {
			return nil, fmt.Errorf("read the place of job %s in its batch: %w", first, err)
		}
	}
	if of.batch, err = r.batches.get(ctx, batch); err != nil {
		return nil, fmt.Errorf("read batch %s: %w", batch, err)
	}
	return &of, nil
}

// readBatch reads the attributes of a batch.
func (r *chunkReader) readBatch(ctx context.Context, id string) (*BatchInfo, error) {
	b, err := r.c.Batch(ctx, id)
	if err != nil {
		return nil, err
	}
	of := &BatchInfo{
		ID: id, Name: b.Name, CreatedAt: b.CreatedAt, Meta: b.Meta, ChunkSize: b.ChunkSize,
		Traceparent: b.Traceparent, Tracestate: b.Tracestate, Baggage: b.Baggage,
	}
	if b.MetadataBytes > 0 {
		of.Metadata, err = r.c.BatchMetadata(ctx, id)
	}
	return of, err
}

// readPart reads the line of a job in its batch.
func (r *chunkReader) readPart(ctx context.Context, first job.ID) (int64, error) {
	place, err := r.c.JobPlace(ctx, first.String())
	return place.Line, err
}
