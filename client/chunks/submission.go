package chunks

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// Submission is a batch that this program has filled.
type Submission struct {
	ID    string
	Count int64 // jobs

	c     *client.Client
	store *Store // may be nil
}

const (
	// One request of Submit has at most submitJobs jobs, with payloads of about submitBytes bytes.
	submitJobs  = 1000
	submitBytes = 2 << 20
	// submitLongBytes is how many bytes of payloads are collected before they are stored by address.
	submitLongBytes = 16 << 20
	// submitWait is how long a job waits at most for others that share its request.
	submitWait = 100 * time.Millisecond
)

// Submit creates a batch, fills it with any number of jobs from an iterator, and closes it at the end. It sends the
// jobs in their order, in requests of at most 1,000 jobs. Each request is repeated when its answer is lost, and creates
// its jobs once. Runners may claim jobs before all have been sent, unless b.Paused is set. With a store, Submit stores
// long payloads by address before it sends the request that names them; it may be nil.
//
// An iterator that cannot yield all of its jobs must cancel ctx. Otherwise Submit closes the batch with the jobs that
// it yielded. If a request fails, Submit returns the error together with the submission, which holds the jobs stored
// until then and is still open: the caller may cancel it.
func Submit(ctx context.Context, c *client.Client, b client.NewBatch, jobs iter.Seq[client.NewJob], store *Store) (*Submission, error) {
	b.Open = true
	created, err := c.CreateBatch(ctx, b, nil)
	if err != nil {
		return nil, err
	}
	s := &Submission{ID: created.BatchID, c: c, store: store}
	f := filling{ctx: ctx, s: s, client: b.Client}
	defer f.start()()
	for j := range jobs {
		if err := f.add(j); err != nil {
			return s, err
		}
	}
	if err := f.end(); err != nil {
		return s, err
	}
	_, err = c.CloseBatch(ctx, s.ID)
	return s, err
}

// filling are the jobs of a submission that wait to be sent.
type filling struct {
	ctx    context.Context
	s      *Submission
	client string // of the batch

	mu          sync.Mutex
	some        []client.NewJob
	bytes, long int         // sizes of the payloads: within requests, and stored by address
	timer       *time.Timer // runs while there are jobs in some
	ended       bool
	err         error // of the first request that failed
}

// start makes the timer. The caller calls stop at the end, also if the iterator panics.
func (f *filling) start() (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.timer = time.AfterFunc(submitWait, f.flush)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.timer.Stop()
		f.ended = true
	}
}

// add adds a job, and sends the jobs if they fill a request.
func (f *filling) add(j client.NewJob) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if len(f.some) == 0 {
		f.timer.Reset(submitWait)
	}
	f.some = append(f.some, j)
	if f.s.store != nil && f.s.store.isLong(f.s.c, j.Kind, j.Payload) {
		f.long += len(j.Payload)
	} else {
		f.bytes += len(j.Payload)
	}
	if len(f.some) == submitJobs || f.bytes >= submitBytes || f.long >= submitLongBytes {
		f.send()
	}
	return f.err
}

// flush sends the jobs that have waited.
func (f *filling) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.send()
	}
}

// end sends the last jobs. It returns the first error.
func (f *filling) end() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send()
	return f.err
}

// send sends the jobs, if there are any and no request has failed. The caller holds f.mu.
func (f *filling) send() {
	f.timer.Stop()
	if len(f.some) == 0 || f.err != nil {
		return
	}
	if f.long > 0 {
		if f.err = f.s.store.Put(f.ctx, f.s.c, f.client, f.some); f.err != nil {
			return
		}
	}
	f.err = f.s.add(f.ctx, f.some)
	clear(f.some) // their payloads may be large
	f.some, f.bytes, f.long = f.some[:0], 0, 0
}

// add adds jobs in their order. Escapes and base64 can make a request too large; then each half of the jobs is sent in
// a separate request.
func (s *Submission) add(ctx context.Context, jobs []client.NewJob) error {
	added, err := s.c.AddToBatch(ctx, s.ID, jobs, client.CreateOptions{})
	s.Count += int64(added.Count)
	if half := len(jobs) / 2; half > 0 && errors.Is(err, client.ErrTooLarge) {
		if err = s.add(ctx, jobs[:half]); err == nil {
			err = s.add(ctx, jobs[half:])
		}
	}
	return err
}

// Results yields the results of a batch; see Client.Results. With a store, which may be nil, it reads the outputs that are
// stored by address. If one cannot be read, the error is yielded with its result, which holds the reference. A query from
// that result's Line+1 yields the rest.
func Results(ctx context.Context, c *client.Client, batchID string, q client.ResultsQuery, store *Store) iter.Seq2[client.BatchResult, error] {
	results := c.Results(ctx, batchID, q)
	if store == nil {
		return results
	}
	return func(yield func(client.BatchResult, error) bool) {
		for r, err := range results {
			if err == nil {
				err = store.loadOutput(ctx, c, &r) // it repeats its requests
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Results yields the results of all jobs in their order, and waits for jobs that have not ended; see Results. It reads
// outputs that are stored by address if the batch was submitted with a store.
func (s *Submission) Results(ctx context.Context) iter.Seq2[client.BatchResult, error] {
	return Results(ctx, s.c, s.ID, client.ResultsQuery{Follow: true}, s.store)
}

// Wait waits until the submission has ended, and returns its document.
func (s *Submission) Wait(ctx context.Context) (client.Batch, error) {
	return s.c.AwaitBatch(ctx, s.ID)
}

// Cancel cancels all jobs of the submission that have not ended, and no more of them begin. Cancel returns when all
// have ended. The error is ErrConflict if the submission has completed or failed.
func (s *Submission) Cancel(ctx context.Context) error {
	sweep, err := s.c.CancelBatch(ctx, s.ID, "")
	if err == nil {
		_, err = s.c.WaitSweep(ctx, sweep, nil)
	}
	return err
}
