package client

import (
	"context"
	"errors"
	"sync"
	"time"
)

// task is a job in a worker's hands.
type task struct {
	claim *heldClaim
	job   *Job
	ctx   context.Context // of its handler
	lose  context.CancelCauseFunc
	did   verdict // once reported
}

// heldClaim is a claim of a worker. One goroutine tickles it and one reports its outcomes, until all of its jobs have ended.
type heldClaim struct {
	r      *running
	id     string
	lease  time.Duration
	client *Client         // the worker's, repeating as long as the lease lasts
	ctx    context.Context // of its requests
	end    context.CancelFunc

	mu    sync.Mutex
	held  map[string]*task // jobs that have not ended
	total int

	done chan *task // ended by their handlers; as many as there are jobs fit in
}

// hold takes a claim in hand. asked is when it was asked for: the lease began after that.
func (r *running) hold(got *Claim, asked time.Time) *heldClaim {
	c := &heldClaim{
		r: r, client: r.Client.patient(time.Duration(got.LeaseMs) * time.Millisecond), id: got.ID, lease: time.Duration(got.LeaseMs) * time.Millisecond, total: len(got.Jobs),
		held: make(map[string]*task, len(got.Jobs)), done: make(chan *task, len(got.Jobs)),
	}
	c.ctx, c.end = context.WithCancel(r.reporting)
	for _, j := range got.Jobs {
		t := &task{claim: c, job: j}
		t.ctx, t.lose = context.WithCancelCause(r.life)
		c.held[j.ID] = t
	}
	r.mu.Lock()
	r.inHand += c.total
	r.mu.Unlock()
	r.held.Go(func() { c.tickle(asked) })
	r.held.Go(c.reports)
	return c
}

// tasks returns the jobs of the claim that are in hand.
func (c *heldClaim) tasks() []*task {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*task, 0, len(c.held))
	for _, t := range c.held {
		list = append(list, t)
	}
	return list
}

// tickle extends the lease at about a third of its length, until all has ended. Without a success for a whole lease it counts as lost: the
// server may have given the jobs to others.
func (c *heldClaim) tickle(asked time.Time) {
	lost := time.AfterFunc(time.Until(asked.Add(c.lease)), func() { c.loseAll() })
	defer lost.Stop()
	for {
		third := c.lease / 3
		sleep(c.ctx, third-third/10+jitter(third/5))
		if c.ctx.Err() != nil {
			return
		}
		asked = time.Now()
		ctx, cancel := context.WithTimeout(c.ctx, c.lease)
		held, err := c.client.TickleClaim(ctx, c.id, TickleOptions{})
		cancel()
		var refused *Error
		switch {
		case err == nil:
			lost.Reset(time.Until(asked.Add(c.lease)))
			c.lose(held.Lost)
		case errors.Is(err, ErrClaimLost):
			// It holds nothing: what has been reported meanwhile has ended, and the rest is lost.
			if errors.As(err, &refused) && len(refused.Lost) > 0 {
				c.lose(refused.Lost)
			} else {
				c.loseAll()
			}
		case c.ctx.Err() == nil:
			c.r.Logger.Warn("cannot tickle a claim", "claim_id", c.id, "error", err)
		}
	}
}

// lose tells handlers that their jobs are no longer held.
func (c *heldClaim) lose(lost []Lost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range lost {
		if t := c.held[l.JobID]; t != nil {
			t.lose(ErrLeaseLost)
		}
	}
}

func (c *heldClaim) loseAll() {
	for _, t := range c.tasks() {
		t.lose(ErrLeaseLost)
	}
}

// report hands in how a run ended.
func (c *heldClaim) report(t *task, v verdict, took time.Duration) {
	t.did = v
	if v.err == nil {
		c.r.OnEvent(Event{Claim: c.id, Job: t.job, Outcome: v.outcome, Took: took})
	} else {
		c.r.OnEvent(Event{Claim: c.id, Job: t.job, Err: v.err, Took: took})
	}
	c.done <- t
}

// reports sends what has been handed in, as much at once as there is: while one request is under way the next gathers. It ends with
// the claim.
func (c *heldClaim) reports() {
	defer c.end()
	for left := c.total; left > 0; {
		tasks := []*task{<-c.done}
		for more := true; more; {
			select {
			case t := <-c.done:
				tasks = append(tasks, t)
			default:
				more = false
			}
		}
		left -= len(tasks)
		c.send(tasks)
		c.mu.Lock()
		for _, t := range tasks {
			delete(c.held, t.job.ID)
		}
		c.mu.Unlock()
		for _, t := range tasks {
			t.lose(nil)
			c.r.ended()
		}
	}
}

// send reports the runs of some jobs.
func (c *heldClaim) send(tasks []*task) {
	var outcomes []JobOutcome
	var back []*task
	plain := true
	for _, t := range tasks {
		switch {
		case t.did.err != nil:
			plain = false
		case t.did.unget:
			back = append(back, t)
			plain = false
		default:
			outcomes = append(outcomes, JobOutcome{t.job.ID, t.did.outcome})
			plain = plain && t.did.outcome.plain()
		}
	}
	ctx := c.ctx
	var results []Result
	var err error
	switch {
	case len(outcomes) == 0:
	case plain && len(outcomes) == c.total: // the whole claim in one small request
		_, _, err = c.client.CompleteClaim(ctx, c.id, Outcome{})
	default:
		results, err = c.client.CompleteMany(ctx, c.id, outcomes)
	}
	if err != nil {
		c.r.Logger.Error("cannot report outcomes; the jobs run again when their lease runs out", "claim_id", c.id, "jobs", len(outcomes), "error", err)
		for _, o := range outcomes {
			c.unreported(o.JobID, err)
		}
	}
	for _, result := range results {
		if err := result.Err(); err != nil {
			c.unreported(result.JobID, err)
		}
	}
	for _, t := range back {
		if _, err := c.client.Release(ctx, t.job.ID, c.id, Unget, nil); err != nil {
			c.r.Logger.Warn("cannot give back a job; it comes back when its lease runs out", "job_id", t.job.ID, "error", err)
			c.unreported(t.job.ID, err)
		}
	}
}

func (c *heldClaim) unreported(id string, err error) {
	c.mu.Lock()
	t := c.held[id]
	c.mu.Unlock()
	if t != nil {
		c.r.OnEvent(Event{Claim: c.id, Job: t.job, Err: err})
	}
}
