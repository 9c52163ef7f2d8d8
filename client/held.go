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

	did  verdict // once its run has ended
	took time.Duration
}

// heldClaim is a claim of a worker. One goroutine tickles it and one reports its outcomes, until all of its jobs have ended.
type heldClaim struct {
	r        *running
	id       string
	lease    time.Duration
	reporter *Client         // repeats as long as a lease lasts
	tickler  *Client         // does not repeat: the claim does
	ctx      context.Context // of its requests
	end      context.CancelFunc
	all      []*task    // in the order in which they were handed out
	done     chan *task // ended by their handlers; as many as there are jobs fit in

	mu   sync.Mutex
	held map[string]*task // jobs that have not ended
}

// hold takes a claim in hand.
func (r *running) hold(got *Claim) *heldClaim {
	lease := time.Duration(got.LeaseMs) * time.Millisecond
	c := &heldClaim{
		r: r, id: got.ID, lease: lease, reporter: r.Client.reporter(lease), tickler: r.Client.single(lease / 2),
		held: make(map[string]*task, len(got.Jobs)), done: make(chan *task, len(got.Jobs)),
	}
	c.ctx, c.end = context.WithCancel(r.reporting)
	for _, j := range got.Jobs {
		t := &task{claim: c, job: j}
		t.ctx, t.lose = context.WithCancelCause(r.life)
		c.all = append(c.all, t)
		c.held[j.ID] = t
	}
	r.mu.Lock()
	r.inHand += len(c.all)
	r.mu.Unlock()
	r.held.Go(func() { c.tickle(got.received) })
	r.held.Go(c.reports)
	return c
}

// tickle extends the lease at about a third of its length, until all has ended or nothing is held. Without a success for a whole lease it
// counts as lost: the server may have given the jobs to others.
//
// A lease runs from when the server stamped it. Of a tickle that is after it was sent, so that is where it is counted from. A claim is
// stamped when the jobs are handed out, which may be long after it was sent; it is counted from when the answer came. That is too late by
// the time that the answer travelled, and a tenth of the lease is taken off for it; with an answer that travels longer a handler may go on
// for so long after its lease, until the next tickle tells.
func (c *heldClaim) tickle(received time.Time) {
	lost := time.AfterFunc(time.Until(received.Add(c.lease-c.lease/10)), c.loseAll)
	defer lost.Stop()
	for failures := 0; ; {
		wait := c.lease/3 - c.lease/30 + jitter(c.lease/15)
		if failures > 0 {
			wait = min(wait, backoff(failures-1))
		}
		sleep(c.ctx, wait)
		if c.ctx.Err() != nil {
			return
		}
		asked := time.Now()
		held, err := c.tickler.TickleClaim(c.ctx, c.id, TickleOptions{})
		switch {
		case err == nil:
			failures = 0
			lost.Reset(time.Until(asked.Add(c.lease)))
			c.lose(held.Lost)
			continue
		case errors.Is(err, ErrClaimLost), errors.Is(err, ErrCancelled):
			// It holds nothing: what has been reported meanwhile has ended, and the rest is lost.
			if refused := (*Error)(nil); errors.As(err, &refused) {
				c.lose(refused.Lost)
			}
			c.loseAll()
			return
		case starting(err):
			// The server is down, or replays. When it serves again the lease is whole: see starting.
			lost.Reset(c.lease)
		}
		failures++
		if c.ctx.Err() == nil {
			c.r.Logger.Warn("cannot tickle a claim", "claim_id", c.id, "error", err)
		}
	}
}

// lose tells handlers that their jobs are no longer held.
func (c *heldClaim) lose(lost []Lost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range lost {
		if t := c.held[l.JobID]; t != nil && l.Code == "cancelled" {
			t.lose(errCancelledRun)
		} else if t != nil {
			t.lose(ErrLeaseLost)
		}
	}
}

// loseAll tells all handlers; to those that have ended it means nothing.
func (c *heldClaim) loseAll() {
	for _, t := range c.all {
		t.lose(ErrLeaseLost)
	}
}

// report hands in how a run ended.
func (c *heldClaim) report(t *task, v verdict, took time.Duration) {
	t.did, t.took = v, took
	c.done <- t
}

// reports sends what has been handed in, as much at once as there is: while one request is under way the next gathers. It ends with
// the claim.
func (c *heldClaim) reports() {
	defer c.end()
	for left := len(c.all); left > 0; {
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
