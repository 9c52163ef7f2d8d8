package client

import (
	"context"
	"iter"
)

// Submission is a batch that this program has filled.
type Submission struct {
	ID    string
	Count int64 // jobs
	c     *Client
}

// One request of Submit has at most so many jobs, with payloads of about so many bytes.
const (
	submitJobs  = 1000
	submitBytes = 2 << 20
)

// Submit creates a batch and fills it with the jobs that an iterator yields, which may be any number: it is sent in requests
// of at most 1,000 jobs, in their order, and closed at the end. Each request is repeated when its answer is lost, and
// creates its jobs once. Jobs may be claimed before all are there, unless b.Paused is set. An iterator that cannot yield all
// of its jobs must cancel ctx: otherwise the batch is closed with those that it yielded.
//
// If a request fails, Submit returns the error together with the submission, which has what arrived until then and is
// still open: the caller may cancel it.
func (c *Client) Submit(ctx context.Context, b NewBatch, jobs iter.Seq[NewJob]) (*Submission, error) {
	b.Open = true
	created, err := c.CreateBatch(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	s := &Submission{ID: created.BatchID, c: c}
	var some []NewJob
	bytes := 0
	send := func() error {
		if len(some) == 0 {
			return nil
		}
		added, err := c.AddToBatch(ctx, s.ID, some, CreateOptions{})
		s.Count += int64(added.Count)
		some, bytes = some[:0], 0
		return err
	}
	for j := range jobs {
		some = append(some, j)
		if bytes += len(j.Payload); len(some) == submitJobs || bytes >= submitBytes {
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

// Results yields the results of all jobs in their order, as they come; see Client.Results.
func (s *Submission) Results(ctx context.Context) iter.Seq2[BatchResult, error] {
	return s.c.Results(ctx, s.ID, ResultsQuery{Follow: true})
}

// Wait waits until the submission has ended, and returns its document.
func (s *Submission) Wait(ctx context.Context) (Batch, error) { return s.c.AwaitBatch(ctx, s.ID) }

// Cancel ends the submission: its jobs that have not ended are cancelled. The error is ErrConflict if it has completed or
// failed.
func (s *Submission) Cancel(ctx context.Context) error {
	_, err := s.c.CancelBatch(ctx, s.ID, "")
	return err
}
