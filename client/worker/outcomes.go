package worker

import (
	"errors"
	"fmt"
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

// reportWhole reports a claim that went well in one small request. If the claim has lost some of the jobs, the worker
// reports each job with its outcome, and the results say which are lost.
func (r *running) reportWhole(c *heldClaim, tasks []*task) {
	began := time.Now()
	ended := 0
	err := r.session.send(r.ctx.requests, r.reporter(tasks), func(to *client.Client) (err error) {
		ended, _, err = to.CompleteClaim(r.ctx.requests, c.id, client.Outcome{})
		return err
	})
	if err == nil && ended < len(tasks) || errors.Is(err, client.ErrClaimLost) {
		r.report(tasks)
		return
	}
	r.settle(tasks, err)
	r.took(began, err)
}

func (r *running) took(began time.Time, err error) {
	if err != nil {
		return
	}
	r.mu.Lock()
	r.measured(time.Since(began))
	r.mu.Unlock()
}

// reporter returns the client for a report of some jobs. It repeats for at least ReportTimeout and the longest of the
// leases: an outcome that is not reported is lost work.
func (r *running) reporter(tasks []*task) *client.Client {
	return r.calls().With(func(o *client.Options) {
		o.RetryFor = max(o.RetryFor, r.ReportTimeout)
		for _, t := range tasks {
			o.RetryFor = max(o.RetryFor, t.claim.lease)
		}
		o.Persistent = true
	})
}

// once returns a client that does not repeat requests, and that waits at most timeout for an answer.
func once(c *client.Client, timeout time.Duration) *client.Client {
	return c.With(func(o *client.Options) { o.RetryFor, o.Timeout = -1, min(o.Timeout, timeout) })
}

// send makes a report, with a number of the session. It returns a result for each outcome.
func (r *running) send(tasks []*task, outcomes []client.JobOutcome) (results []client.Result, err error) {
	err = r.session.send(r.ctx.requests, r.reporter(tasks), func(to *client.Client) (err error) {
		results, err = to.CompleteMany(r.ctx.requests, "", outcomes)
		return err
	})
	if err == nil && len(results) != len(outcomes) {
		err = fmt.Errorf("%w: %d results of %d outcomes", client.ErrUnexpectedAnswer, len(results), len(outcomes))
	}
	return results, err
}

// report reports how some jobs ended. They may belong to several claims.
func (r *running) report(tasks []*task) {
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
		r.underWay.requests.Go(func() { r.giveBack(back) })
	}
	r.complete(outcomes)
}

// complete reports outcomes in requests of about reportBytes.
func (r *running) complete(tasks []*task) {
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
func sizeOf(o *client.Outcome) int {
	n := 256 + len(o.Error) + len(o.Output)
	for i := range o.Then {
		n += 256 + len(o.Then[i].Payload)
	}
	return n
}

// completeSome reports outcomes in one request. If the request is refused because of its content, completeSome reports
// each half separately, and so on until each refused outcome is alone.
func (r *running) completeSome(tasks []*task) {
	outcomes := make([]client.JobOutcome, len(tasks))
	for i, t := range tasks {
		outcomes[i] = client.JobOutcome{JobID: t.run.Job.ID, ClaimID: t.claim.id, Outcome: t.how.outcome}
	}
	began := time.Now()
	results, err := r.send(tasks, outcomes)
	switch half := len(tasks) / 2; {
	case err == nil:
		r.took(began, nil)
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
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == 0 && errors.Is(err, client.ErrBadRequest)
}

// tooManyHops is the code of the refusal of an outcome that would continue a chain of jobs that is too long.
const tooManyHops = "too_many_hops"

// standIn replaces an outcome that cannot be reported: it reports an error, with a code, so that the job's history has
// the reason.
func (r *running) standIn(t *task, code string, reason error) {
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
func (r *running) giveBack(tasks []*task) {
	var ungets sync.WaitGroup
	for _, t := range tasks {
		r.ungets <- struct{}{}
		ungets.Go(func() {
			_, err := r.reporter([]*task{t}).Release(r.ctx.requests, t.run.Job.ID, t.claim.id, client.Unget, nil)
			cause := errWaited
			switch {
			case t.how.asked:
				cause = ErrUnget
			case r.ctx.stopping.Err() != nil:
				cause = ErrDraining
			}
			if err != nil && !lostJob(err) { // a lost job is already in its queue, perhaps by an unget whose answer was lost
				r.Logger.Warn("cannot return a job to its queue; it becomes pending when its lease ends", "job_id", t.run.Job.ID, "error", err)
				cause = fmt.Errorf("%w; to return it failed: %w", cause, err)
			}
			r.OnEvent(Event{Claim: t.claim.id, Job: t.run.Job, Err: cause, Took: t.how.took})
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
func (r *running) settle(tasks []*task, err error) {
	for _, t := range tasks {
		err := err
		switch {
		case err == nil:
		case lostJob(err):
			if !errors.Is(err, ErrLeaseLost) {
				err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
			}
			r.Logger.Warn("a job was lost before its outcome was reported", "claim_id", t.claim.id, "job_id", t.run.Job.ID, "error", err)
		default:
			r.Logger.Error("cannot report an outcome", "claim_id", t.claim.id, "job_id", t.run.Job.ID, "error", err)
			r.problems.addUnreported(fmt.Errorf("job %s: %w", t.run.Job.ID, err))
		}
		r.OnEvent(Event{Claim: t.claim.id, Job: t.run.Job, Outcome: t.how.outcome, Err: err, Took: t.how.took})
	}
	r.reported(tasks)
}
