package client

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// reportBytes is about how long the body of a report may grow: half of what the server takes. A single outcome may
	// be longer.
	reportBytes = 4 << 20
	// ungetsAtOnce bounds how many jobs are given back at the same time.
	ungetsAtOnce = 16
)

// reportWhole reports a claim that went well in one small request. Where some jobs have ended otherwise meanwhile, the
// jobs are reported one by one, which says which.
func (r *running) reportWhole(c *heldClaim, tasks []*task) {
	began := time.Now()
	ended, _, err := r.reporter(tasks).CompleteClaim(r.ctx.requests, c.id, Outcome{})
	if err == nil && ended < len(tasks) || errors.Is(err, ErrClaimLost) {
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

// reporter returns the client for a report of some jobs. It repeats for as long as one of the leases, or as a worker
// that stops would: what the server does not take is work done in vain.
func (r *running) reporter(tasks []*task) *Client {
	p := *r.Client
	p.o.RetryFor = max(p.o.RetryFor, r.ReportTimeout)
	for _, t := range tasks {
		p.o.RetryFor = max(p.o.RetryFor, t.claim.lease)
	}
	p.stubborn = true
	return &p
}

// outcomeReport is an outcome on its way to the server.
type outcomeReport struct {
	t    *task
	body jsontext.Value
}

// report reports the ends of some jobs, of any claims.
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

// complete reports outcomes, in requests of about reportBytes.
func (r *running) complete(tasks []*task) {
	var list []outcomeReport
	size := 0
	for _, t := range tasks {
		var text []byte
		body, err := t.how.outcome.body(t.job.ID)
		if err == nil {
			body.ClaimID = t.claim.id
			text, err = json.Marshal(body)
		}
		if err != nil {
			r.standIn(t, fmt.Errorf("%w: %w", ErrBadRequest, err))
			continue
		}
		if len(list) > 0 && size+len(text) > reportBytes {
			r.completeSome(list)
			list, size = nil, 0
		}
		list, size = append(list, outcomeReport{t, text}), size+len(text)
	}
	if len(list) > 0 {
		r.completeSome(list)
	}
}

// completeSome reports outcomes in one request. If the server refuses it because of an outcome that it cannot take,
// each half is reported for itself, until the offenders are alone.
func (r *running) completeSome(list []outcomeReport) {
	tasks, bodies := make([]*task, len(list)), make([]jsontext.Value, len(list))
	for i := range list {
		tasks[i], bodies[i] = list[i].t, list[i].body
	}
	began := time.Now()
	_, results, err := r.reporter(tasks).completeMany(r.ctx.requests, outcomesBody{bodies}, repeatable)
	if err == nil && len(results) != len(list) {
		err = fmt.Errorf("%w: %d results of %d outcomes", ErrUnexpectedAnswer, len(results), len(list))
	}
	switch half := len(list) / 2; {
	case err == nil:
		r.took(began, nil)
		var done []*task
		for i := range results {
			if err := results[i].Err(); err != nil {
				r.settle(tasks[i:i+1], err)
			} else {
				done = append(done, tasks[i])
			}
		}
		r.settle(done, nil)
	case !refusedAsItIs(err):
		r.settle(tasks, err)
	case half > 0:
		r.completeSome(list[:half])
		r.completeSome(list[half:])
	default:
		r.standIn(tasks[0], err)
	}
}

// refusedAsItIs reports whether err says that a request is malformed or too large.
func refusedAsItIs(err error) bool {
	var refused *Error
	var strange *strangeStatus // a proxy may have its own idea of how much is too much
	status := 0
	switch {
	case errors.As(err, &refused):
		status = refused.Status
	case errors.As(err, &strange):
		status = strange.status
	}
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge
}

// standIn reports an error in place of an outcome that cannot be reported, so that the job's history has the reason.
func (r *running) standIn(t *task, reason error) {
	results, err := r.reporter([]*task{t}).CompleteMany(r.ctx.requests, t.claim.id, []JobOutcome{{t.job.ID, Outcome{
		Code: "error", Error: errorText(fmt.Errorf("the outcome cannot be reported: %w", reason)),
	}}})
	if err == nil && len(results) == 1 {
		err = results[0].Err()
	}
	if err != nil {
		reason = fmt.Errorf("%w; nor can an error in its place: %w", reason, err)
	}
	r.settle([]*task{t}, reason)
}

// giveBack gives jobs back as if they had never been claimed.
func (r *running) giveBack(tasks []*task) {
	room := make(chan struct{}, ungetsAtOnce)
	var ungets sync.WaitGroup
	for _, t := range tasks {
		room <- struct{}{}
		ungets.Go(func() {
			_, err := r.reporter([]*task{t}).Release(r.ctx.requests, t.job.ID, t.claim.id, Unget, nil)
			cause := errWaited
			if r.ctx.stopping.Err() != nil {
				cause = ErrDraining
			}
			if err != nil && !lostJob(err) { // what is lost is back already, perhaps by an unget whose answer was lost
				r.Logger.Warn("cannot return a job; it is pending again when its lease runs out", "job_id", t.job.ID, "error", err)
				cause = fmt.Errorf("%w: give it back: %w", cause, err)
			}
			r.OnEvent(Event{Claim: t.claim.id, Job: t.job, Err: cause, Took: t.how.took})
			<-room
		})
	}
	ungets.Wait()
	r.reported(tasks)
}

// lostJob reports whether err says that the job is not held any more: its claim has lost it, it was cancelled, or it
// has ended and is deleted.
func lostJob(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClaimLost) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCancelled)
}

// settle closes jobs that are reported or, with an error, cannot be.
func (r *running) settle(tasks []*task, err error) {
	for _, t := range tasks {
		err := err
		switch {
		case err == nil:
		case lostJob(err):
			if !errors.Is(err, ErrLeaseLost) {
				err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
			}
			r.Logger.Warn("a job was lost before its outcome was reported", "claim_id", t.claim.id, "job_id", t.job.ID, "error", err)
		default:
			r.Logger.Error("cannot report an outcome", "claim_id", t.claim.id, "job_id", t.job.ID, "error", err)
			r.problems.addUnreported(fmt.Errorf("job %s: %w", t.job.ID, err))
		}
		r.OnEvent(Event{Claim: t.claim.id, Job: t.job, Outcome: t.how.outcome, Err: err, Took: t.how.took})
	}
	r.reported(tasks)
}
