package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

const (
	// reportBytes is about how long the body of a report may be: half of the server's limit. A single outcome may be
	// longer.
	reportBytes = 4 << 20
	// ungetsAtOnce is how many jobs a Worker returns to their queues at the same time.
	ungetsAtOnce = 16
)

// reporter reports how jobs ended.
type reporter struct {
	*transport
	stopping context.Context
	timeout  time.Duration // see Worker.ReportTimeout
	logger   *slog.Logger
	onEvent  func(Event)
	problems *problems
	ungets   chan struct{} // its capacity is how many jobs may be returned to their queues at the same time

	reported func([]*task)       // is called with jobs that are reported, or that cannot be reported
	measured func(time.Duration) // is called with the duration of a report
}

// Event is a claim of some jobs, or the end of the run of one job once it is reported. If the outcome was not reported,
// Err is the reason: ErrLeaseLost, ErrUnget, ErrDraining or client.ErrUndecodable for a job that was returned to its queue,
// or the error of the report.
type Event struct {
	Claim   string
	Jobs    int // how many jobs a claim got; 0 for the end of a run
	Job     *client.Job
	Outcome client.Outcome
	Err     error
	Took    time.Duration // how long the claim's request or the handler took
}

// reportWhole reports a claim that went well in one small request. If the claim has lost some of the jobs, the worker
// reports each job with its outcome, and the results say which are lost.
func (r *reporter) reportWhole(c *heldClaim, tasks []*task) {
	began := time.Now()
	ended := 0
	err := r.numbered(r.patient(tasks), func(to *client.Client) (err error) {
		ended, _, err = to.CompleteClaim(r.ctx, c.id, client.Outcome{})
		return err
	})
	if err == nil && ended < len(tasks) || errors.Is(err, client.ErrClaimLost) {
		r.report(tasks)
		return
	}
	r.settle(tasks, err)
	if err == nil {
		r.measured(time.Since(began))
	}
}

// patient returns the client for a report of some jobs. It repeats for at least ReportTimeout and the longest of the
// leases: an outcome that is not reported is lost work.
func (r *reporter) patient(tasks []*task) *client.Client {
	return r.calls().With(func(to *client.Options) {
		to.RetryFor = max(to.RetryFor, r.timeout)
		for _, t := range tasks {
			to.RetryFor = max(to.RetryFor, t.claim.lease)
		}
		to.Persistent = true
	})
}

// send makes a report, with a number of the session. It returns a result for each outcome.
func (r *reporter) send(tasks []*task, outcomes []client.JobOutcome) (results []client.Result, err error) {
	err = r.numbered(r.patient(tasks), func(to *client.Client) (err error) {
		results, err = to.CompleteMany(r.ctx, "", outcomes)
		return err
	})
	if err == nil && len(results) != len(outcomes) {
		err = fmt.Errorf("%w: %d results of %d outcomes", client.ErrUnexpectedAnswer, len(results), len(outcomes))
	}
	return results, err
}

// report reports how some jobs ended. They may belong to several claims.
func (r *reporter) report(tasks []*task) {
	var outcomes, back []*task
	for _, t := range tasks {
		switch {
		case t.how.err != nil:
			r.settle([]*task{t}, t.how.err)
		case t.how.giveBack:
			back = append(back, t)
		default:
			outcomes = append(outcomes, t)
		}
	}
	if len(back) > 0 {
		r.underWay.Go(func() { r.giveBack(back) })
	}
	r.complete(outcomes)
}

// complete reports outcomes in requests of about reportBytes.
func (r *reporter) complete(tasks []*task) {
	first, size := 0, 0
	for i, t := range tasks {
		n := sizeOf(&t.how.outcome)
		if i > first && size+n > reportBytes {
			r.completeSome(tasks[first:i])
			first, size = i, 0
		}
		size += n
	}
	if first < len(tasks) {
		r.completeSome(tasks[first:])
	}
}

// sizeOf estimates how long an outcome is in a report. Escapes can make it longer: if a report is too large then,
// completeSome halves it.
func sizeOf(of *client.Outcome) int {
	n := 256 + len(of.Error) + len(of.Output)
	for i := range of.Then {
		n += 256 + len(of.Then[i].Payload)
	}
	return n
}

// completeSome reports outcomes in one request. If the request is refused because of its content, completeSome reports
// each half separately, and so on until each refused outcome is alone.
func (r *reporter) completeSome(tasks []*task) {
	outcomes := make([]client.JobOutcome, len(tasks))
	for i, t := range tasks {
		outcomes[i] = client.JobOutcome{JobID: t.run.Job.ID, ClaimID: t.claim.id, Outcome: t.how.outcome}
	}
	began := time.Now()
	results, err := r.send(tasks, outcomes)
	switch half := len(tasks) / 2; {
	case err == nil:
		r.measured(time.Since(began))
		var done []*task
		for i := range results {
			switch err := results[i].Err(); {
			case err == nil:
				done = append(done, tasks[i])
			case results[i].Code == tooManyHops: // the server would refuse it again
				r.standIn(tasks[i], "failed", err)
			default:
				r.settle(tasks[i:i+1], err)
			}
		}
		r.settle(done, nil)
	case !refusedAsItIs(err):
		r.settle(tasks, err)
	case half > 0:
		r.completeSome(tasks[:half])
		r.completeSome(tasks[half:])
	default:
		r.standIn(tasks[0], "error", err)
	}
}

// refusedAsItIs reports whether err says that a request is malformed or too large: by the client, the server, or a proxy,
// which may have a lower limit.
func refusedAsItIs(err error) bool {
	status := client.StatusOf(err)
	mine := errors.Is(err, client.ErrBadRequest) || errors.Is(err, client.ErrTooLarge)
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == 0 && mine
}

// tooManyHops is the code of the refusal of an outcome that would continue a chain of jobs that is too long.
const tooManyHops = "too_many_hops"

// standIn replaces an outcome that cannot be reported: it reports an error, with a code, so that the job's history has
// the reason.
func (r *reporter) standIn(t *task, code string, reason error) {
	results, err := r.send([]*task{t}, []client.JobOutcome{{JobID: t.run.Job.ID, ClaimID: t.claim.id, Outcome: client.Outcome{
		Code: code, Error: errorText(fmt.Errorf("the outcome cannot be reported: %w", reason)),
	}}})
	if err == nil {
		err = results[0].Err()
	}
	if err != nil {
		reason = fmt.Errorf("%w; to report an error in its place failed too: %w", reason, err)
	}
	r.settle([]*task{t}, reason)
}

// giveBack returns jobs to their queues as if they had never been claimed.
func (r *reporter) giveBack(tasks []*task) {
	var ungets sync.WaitGroup
	for _, t := range tasks {
		r.ungets <- struct{}{}
		ungets.Go(func() {
			_, err := r.patient([]*task{t}).Release(r.ctx, t.run.Job.ID, t.claim.id, client.Unget, nil)
			cause := errWaited
			switch {
			case t.run.Job.Undecodable != nil:
				cause = t.run.Job.Undecodable
			case t.how.asked:
				cause = ErrUnget
			case r.stopping.Err() != nil:
				cause = ErrDraining
			}
			if err != nil && !lostJob(err) { // a lost job is already in its queue, perhaps by an unget whose answer was lost
				r.logger.Warn("cannot return a job to its queue; it becomes pending when its lease ends", "job_id", t.run.Job.ID, "error", err)
				cause = fmt.Errorf("%w; to return it failed: %w", cause, err)
			}
			r.onEvent(Event{Claim: t.claim.id, Job: t.run.Job, Err: cause, Took: t.how.took})
			<-r.ungets
		})
	}
	ungets.Wait()
	r.reported(tasks)
}

// lostJob reports whether err says that the worker no longer holds the job: its claim lost it, it was cancelled, or it
// has ended and is deleted.
func lostJob(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, client.ErrClaimLost) || errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrCancelled)
}

// settle ends the work on jobs that are reported, or that cannot be reported because of err.
func (r *reporter) settle(tasks []*task, err error) {
	for _, t := range tasks {
		err := err
		switch {
		case err == nil:
		case lostJob(err):
			if !errors.Is(err, ErrLeaseLost) {
				err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
			}
			r.logger.Warn("a job was lost before its outcome was reported", "claim_id", t.claim.id, "job_id", t.run.Job.ID, "error", err)
		default:
			r.logger.Error("cannot report an outcome", "claim_id", t.claim.id, "job_id", t.run.Job.ID, "error", err)
			r.problems.addUnreported(fmt.Errorf("job %s: %w", t.run.Job.ID, err))
		}
		r.onEvent(Event{Claim: t.claim.id, Job: t.run.Job, Outcome: t.how.outcome, Err: err, Took: t.how.took})
	}
	r.reported(tasks)
}
