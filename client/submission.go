package client

import (
	"context"
	"errors"
	"iter"
)

// Submission is a batch that this program has filled.
type Submission struct {
	ID    string
	Count int64 // jobs

	c      *Client
	chunks *Chunks // may be nil
}

const (
	// One request of Submit has at most so many jobs, with payloads of about so many bytes.
	submitJobs  = 1000
	submitBytes = 2 << 20
	// submitLongBytes is how many bytes of payloads are collected that are stored by address.
	submitLongBytes = 16 << 20
)

// Submit creates a batch and fills it with the jobs that an iterator yields, which may be any number: it is sent in requests
// of at most 1,000 jobs, in their order, and closed at the end. Each request is repeated when its answer is lost, and
// creates its jobs once. Jobs may be claimed before all are there, unless b.Paused is set. An iterator that cannot yield all
// of its jobs must cancel ctx: otherwise the batch is closed with those that it yielded. With b.Chunks, long payloads are
// stored by address before the request that names them.
//
// If a request fails, Submit returns the error together with the submission, which has what arrived until then and is
// still open: the caller may cancel it.
func (c *Client) Submit(ctx context.Context, b NewBatch, jobs iter.Seq[NewJob]) (*Submission, error) {
	b.Open = true
	chunks := b.Chunks
	created, err := c.CreateBatch(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	s := &Submission{ID: created.BatchID, c: c, chunks: chunks}
	var some []NewJob
	bytes, long := 0, 0
	send := func() error {
		if len(some) == 0 {
			return nil
		}
		if long > 0 {
			if err := chunks.putPayloads(ctx, c, b.Client, some); err != nil {
				return err
			}
		}
		err := s.add(ctx, some)
		clear(some) // their payloads may be large
		some, bytes, long = some[:0], 0, 0
		return err
	}
	for j := range jobs {
		some = append(some, j)
		if chunks != nil && chunks.isLong(j.Kind, j.Payload) {
			long += len(j.Payload)
		} else {
			bytes += len(j.Payload)
		}
		if len(some) == submitJobs || bytes >= submitBytes || long >= submitLongBytes {
			if err := send(); err != nil {
				return s, err
			}
		}
	}
	if err := send(); err != nil {
		return s, err
	}
	_, err = c.CloseBatch(ctx, s.ID)
	return s, err
}

// add adds jobs in their order. Escapes and base64 can make payloads longer in a request than it may be: then each half of the
// jobs has a request of its own.
func (s *Submission) add(ctx context.Context, jobs []NewJob) error {
	added, err := s.c.AddToBatch(ctx, s.ID, jobs, CreateOptions{})
	s.Count += int64(added.Count)
	if half := len(jobs) / 2; half > 0 && errors.Is(err, ErrTooLarge) {
		if err = s.add(ctx, jobs[:half]); err == nil {
			err = s.add(ctx, jobs[half:])
		}
	}
	return err
}

// Results yields the results of all jobs in their order, as they come; see Client.Results. It reads outputs that are stored by
// address if the batch was submitted with Chunks.
func (s *Submission) Results(ctx context.Context) iter.Seq2[BatchResult, error] {
	return s.c.Results(ctx, s.ID, ResultsQuery{Follow: true, Chunks: s.chunks})
}

// Wait waits until the submission has ended, and returns its document.
func (s *Submission) Wait(ctx context.Context) (Batch, error) { return s.c.AwaitBatch(ctx, s.ID) }

// Cancel ends the submission: its jobs that have not ended are cancelled, and none begins any more. Cancel returns when all of
// them have ended. The error is ErrConflict if the submission has completed or failed.
func (s *Submission) Cancel(ctx context.Context) error {
	sweep, err := s.c.CancelBatch(ctx, s.ID, "")
	if err == nil {
		_, err = s.c.WaitSweep(ctx, sweep, nil)
	}
	return err
}
