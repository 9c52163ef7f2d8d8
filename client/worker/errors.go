package worker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

var (
	// ErrLeaseLost ends a handler's context when the worker no longer holds the job: the server has said so, or the
	// lease or the job's timeout_ms has ended by the worker's clock. If the handler then returns without an error, the
	// worker still reports its work, unless the job was cancelled. The server accepts this report while the job waits
	// for its next run, and refuses it if another runner has the job. If the worker learned from the server that the job
	// is lost, it reports only the outcomes ok and failed.
	ErrLeaseLost = errors.New("the lease was lost")
	// ErrDraining ends a handler's context when the worker stops and draining takes longer than DrainTimeout.
	ErrDraining = errors.New("the worker is stopping")

	// A Handler returns ErrUnget to return the job to its queue as if it had never been claimed.
	ErrUnget = errors.New("the handler returned the job to its queue")

	// ErrUnfinished is in the error of Run if handlers had not returned when its time was over. Their jobs are no longer
	// tickled, and run again.
	ErrUnfinished = errors.New("handlers have not returned")

	errGoexit       = errors.New("the handler ended its goroutine (runtime.Goexit)")
	errCancelledRun = fmt.Errorf("%w: %w", ErrLeaseLost, client.ErrCancelled)
	errWaited       = errors.New("the job waited too long for a handler, and was returned to its queue")

	// errByClock ends handlers by the worker's clock. The server has not said that the job is lost.
	errByClock    = fmt.Errorf("%w by the worker's clock", ErrLeaseLost)
	errLeaseEnded = fmt.Errorf("%w: no tickle succeeded before the end of the lease", errByClock)
	errTimedOut   = fmt.Errorf("%w: the job ran longer than its timeout_ms", errByClock)
)

// failure and delay are the errors that Fail and RetryAfter return.
type (
	failure struct{ error }
	delay   struct {
		error
		after time.Duration
	}
)

func (f failure) Unwrap() error { return f.error }
func (d delay) Unwrap() error   { return d.error }

// Fail makes err final: the job ends as failed and does not run again. Fail(nil) is nil, so that a handler may end with
// return Outcome{}, Fail(work()).
func Fail(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// RetryAfter makes the job run again after d instead of after its backoff, unless all its attempts are used. A negative
// d counts as 0. RetryAfter(d, nil) is nil. To run a job again without an error, return an Outcome with code retry.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return delay{err, max(d, 0)}
}

// maxProblems bounds the error of Run. A disk that is full for an hour causes one problem for each job.
const maxProblems = 10

// problems collects the errors that Run returns.
type problems struct {
	mu         sync.Mutex // guards all fields
	refused    error      // a claim that the server refused for good
	unreported int        // outcomes that could not be reported
	first      []error    // the reasons for the first maxProblems of them
}

func (p *problems) refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = err
}

func (p *problems) addUnreported(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unreported++; len(p.first) < maxProblems {
		p.first = append(p.first, err)
	}
}

func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unreported == 0 {
		return p.refused
	}
	return errors.Join(p.refused, fmt.Errorf("cannot report %d outcomes; the first errors: %w", p.unreported, errors.Join(p.first...)))
}
