package client

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// reportBytes is about how long the body of a report may grow: half of what the server takes. A single outcome may be longer.
	reportBytes = 4 << 20
	// ungetsAtOnce bounds how many jobs of a claim are given back at the same time.
	ungetsAtOnce = 16
)

// outcomeReport is an outcome on its way to the server.
type outcomeReport struct {
	t    *task
	body jsontext.Value
}

// send reports the runs of some jobs.
func (c *heldClaim) send(tasks []*task) {
	var outcomes, back []*task
	for _, t := range tasks {
		switch {
		case t.did.err != nil:
			c.tell(t, t.did.err)
		case t.did.unget:
			back = append(back, t)
		default:
			outcomes = append(outcomes, t)
		}
	}
	if !c.completeAll(outcomes) {
		c.complete(outcomes)
	}
	c.giveBack(back)
}

// completeAll reports a whole claim that went well in one small request. It reports whether that settled it: where some jobs have
// ended otherwise meanwhile, they have to be asked for one by one.
func (c *heldClaim) completeAll(tasks []*task) (settled bool) {
	if len(tasks) < len(c.all) {
		return false
	}
	for _, t := range tasks {
		if !t.did.outcome.plain() {
			return false
		}
	}
	ended, _, err := c.reporter.CompleteClaim(c.ctx, c.id, Outcome{})
	if err == nil && ended < len(tasks) || errors.Is(err, ErrClaimLost) {
		return false
	}
	for _, t := range tasks {
		c.tell(t, err)
	}
	return true
}

// complete reports outcomes, in requests of about reportBytes.
func (c *heldClaim) complete(tasks []*task) {
	var reports []outcomeReport
	size := 0
	for _, t := range tasks {
		var text []byte
		body, err := t.did.outcome.body(t.job.ID)
		if err == nil {
			text, err = json.Marshal(body)
		}
		if err != nil {
			c.standIn(t, fmt.Errorf("%w: %w", ErrBadRequest, err))
			continue
		}
		if len(reports) > 0 && size+len(text) > reportBytes {
			c.completeSome(reports)
			reports, size = nil, 0
		}
		reports, size = append(reports, outcomeReport{t, text}), size+len(text)
	}
	if len(reports) > 0 {
		c.completeSome(reports)
	}
}

// completeSome reports outcomes in one request. One that the server cannot take has it refuse the request as a whole: then each half is
// reported for itself, until the offenders are alone.
func (c *heldClaim) completeSome(reports []outcomeReport) {
	list := make([]jsontext.Value, len(reports))
	for i := range reports {
		list[i] = reports[i].body
	}
	_, results, err := c.reporter.completeMany(c.ctx, outcomesBody{ClaimID: c.id, Outcomes: list}, true)
	if err == nil && len(results) != len(reports) {
		err = fmt.Errorf("%w: %d results of %d outcomes", ErrUnexpectedAnswer, len(results), len(reports))
	}
	switch half := len(reports) / 2; {
	case err == nil:
		for i := range results {
			c.tell(reports[i].t, results[i].Err())
		}
	case !refusedAsItIs(err):
		for i := range reports {
			c.tell(reports[i].t, err)
		}
	case half > 0:
		c.completeSome(reports[:half])
		c.completeSome(reports[half:])
	default:
		c.standIn(reports[0].t, err)
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

// standIn reports an error in place of an outcome that cannot be reported, so that the reason stands in the job's history instead of
// nothing at all.
func (c *heldClaim) standIn(t *task, reason error) {
	results, err := c.reporter.CompleteMany(c.ctx, c.id, []JobOutcome{{t.job.ID, Outcome{
		Code: "error", Error: text(fmt.Errorf("the outcome cannot be reported: %w", reason)),
	}}})
	if err == nil && len(results) == 1 {
		err = results[0].Err()
	}
	if err != nil {
		reason = fmt.Errorf("%w; nor can an error in its place: %w", reason, err)
	}
	c.tell(t, reason)
}

// giveBack gives jobs back as if they had never been claimed.
func (c *heldClaim) giveBack(tasks []*task) {
	room := make(chan struct{}, ungetsAtOnce)
	var ungets sync.WaitGroup
	for _, t := range tasks {
		room <- struct{}{}
		ungets.Go(func() {
			_, err := c.reporter.Release(c.ctx, t.job.ID, c.id, Unget, nil)
			if err != nil && !lostJob(err) { // what is lost is back already, be it by an unget whose answer was lost
				c.r.Logger.Warn("cannot give back a job; it comes back when its lease runs out", "job_id", t.job.ID, "error", err)
				err = fmt.Errorf("%w: give it back: %w", ErrDraining, err)
			} else {
				err = ErrDraining
			}
			c.r.OnEvent(Event{Claim: c.id, Job: t.job, Err: err, Took: t.took})
			<-room
		})
	}
	ungets.Wait()
}

// lostJob reports whether err says that the job is not held any more: by a claim that has lost it, or since it was cancelled, or has ended
// and is gone.
func lostJob(err error) bool {
	return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrClaimLost) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCancelled)
}

// tell says that the run of a job has ended and is reported or, with an error, that it is not.
func (c *heldClaim) tell(t *task, err error) {
	switch {
	case err == nil:
	case lostJob(err):
		if !errors.Is(err, ErrLeaseLost) {
			err = fmt.Errorf("%w: %w", ErrLeaseLost, err)
		}
		c.r.Logger.Warn("a job was lost before its outcome was reported", "claim_id", c.id, "job_id", t.job.ID, "error", err)
	default:
		c.r.Logger.Error("cannot report an outcome", "claim_id", c.id, "job_id", t.job.ID, "error", err)
		c.r.unreported(fmt.Errorf("job %s: %w", t.job.ID, err))
	}
	c.r.OnEvent(Event{Claim: c.id, Job: t.job, Outcome: t.did.outcome, Err: err, Took: t.took})
}
