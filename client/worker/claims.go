package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/internal/backoff"
)

// claims decides how many jobs the worker claims, and sends the claims, or sets the credit of the stream.
//
// The worker claims in advance: while handlers run, requests fetch the jobs that they begin next. The faster the
// handlers are, the more jobs it claims. At first it sends one claim at a time. When a claim returns as many jobs as
// requested, it sends up to two at a time, then four, and so on. When a claim returns no job, it falls back to one. One
// of the outstanding claims waits for jobs at the server; all others return at once.
type claims struct {
	*Worker
	*transport
	jobs     *jobs
	problems *problems
	stopping context.Context // the worker claims no more when it ends
	stop     context.CancelFunc
	underWay sync.WaitGroup

	mu          sync.Mutex // guards the fields below
	outstanding int        // claims
	waits       bool       // one of them waits for jobs at the server
	asked       int        // the most jobs that they may return
	atOnce      int        // the limit of outstanding
	most        int        // how many jobs to request: Batch, unless an answer was too large
	failures    int        // failed claims since the last success
	wrongKey    time.Time  // when a claim was first answered that the key is wrong; zero since the last success
	// noAheadUntil is when jobs may be claimed in advance again.
	noAheadUntil time.Time
	roundTrip    time.Duration // moving average of requests that do not wait at the server

	opening  bool          // a stream is being opened; until then no claims are sent
	streamed bool          // a stream sends the jobs
	credit   int           // the credit that the server should know
	changed  chan struct{} // capacity 1; signals that credit has changed; needs no lock
}

func newClaims(w *Worker, t *transport, j *jobs, p *problems, stopping context.Context, stop context.CancelFunc) *claims {
	c := &claims{
		Worker: w, transport: t, jobs: j, problems: p, stopping: stopping, stop: stop,
		atOnce: 1, most: w.Batch, roundTrip: firstRoundTrip, opening: true, changed: make(chan struct{}, 1),
	}
	j.more, j.late = c.more, c.late
	j.reports.measured = c.measured
	return c
}

const (
	// lastClaim is how long a claim that waits at the server may continue when the worker stops. If it were aborted at
	// once, its answer might already have been sent, and its jobs would be idle until their lease ends. A claim that
	// still waits after lastClaim most likely gets no jobs. It is repeated once to make sure, for lastRepeat. On a slow
	// network both are longer: see patience.
	lastClaim, lastRepeat = 250 * time.Millisecond, 750 * time.Millisecond
	// lastAnswer is the limit for a claim that does not wait. Its answer arrives soon, unless the server is down.
	lastAnswer = 5 * time.Second
	// maxClaims bounds the outstanding claims. Otherwise a worker with many handlers and small batches would open one
	// connection per handler.
	maxClaims = 64
	// maxAheadBatches bounds how many batches are claimed in advance without Prefetch.
	maxAheadBatches = 8
	// maxAheadStreamed bounds the jobs in advance for each handler of a worker with a stream, whose claims cost it
	// nothing.
	maxAheadStreamed = 32
	// firstRoundTrip is assumed until a round trip has been measured. minRoundTrip and maxRoundTrip bound the measured
	// values.
	firstRoundTrip, minRoundTrip, maxRoundTrip = 5 * time.Millisecond, 2 * time.Millisecond, 250 * time.Millisecond
	// minUnreported is how many ended jobs may wait for their reports, even if the worker may hold fewer jobs than
	// that. At the limit the worker claims no more: while the server accepts no reports, more claims make no sense.
	minUnreported = 16
	// noAheadFor is how long the worker claims only for free handlers after a job has waited too long.
	noAheadFor = time.Minute
	// maxCredit is the server's bound.
	maxCredit = 10_000
)

// ahead returns how many jobs the worker may hold beyond those that run. mu is held.
func (c *claims) ahead(meanTook time.Duration) int {
	if !c.noAheadUntil.IsZero() {
		if time.Now().Before(c.noAheadUntil) {
			return 0
		}
		c.noAheadUntil = time.Time{}
	}
	if c.Prefetch < 0 || meanTook < 0 {
		return max(c.Prefetch, 0)
	}
	// Jobs that the handlers will begin within two round trips are claimed now, so that they arrive in time.
	soon := float64(c.handlers()) * float64(2*c.roundTrip) / float64(max(meanTook, 1))
	most := maxAheadBatches * c.Batch
	if c.streamed { // the size of the batches is up to the server
		most = max(most, maxAheadStreamed*c.Concurrency)
	}
	return max(c.Prefetch, int(min(soon, float64(most))))
}

// handlers returns how many handlers may have a job now.
func (c *claims) handlers() int {
	if c.Room == nil {
		return c.Concurrency
	}
	return min(c.Concurrency, max(c.Room(), 1))
}

// more sends claims as far as there is room for jobs.
func (c *claims) more() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.opening:
		return
	case c.streamed:
		c.setCredit()
		return
	}
	for c.stopping.Err() == nil && c.outstanding < c.atOnce {
		l := c.jobs.load()
		may := c.handlers() + c.ahead(l.meanTook)
		room := min(may-l.held, max(may, minUnreported)-l.unreported) - c.asked
		// A claim for a few jobs costs as much as one for many. It is sent only if handlers have nothing else to begin.
		useful := max(min(c.Batch, may/2), 1)
		if room <= 0 || room < useful && (c.asked > 0 || l.waiting > 0) {
			return
		}
		n := min(room, c.most)
		wait := time.Duration(0)
		if !c.waits {
			c.waits, wait = true, c.Wait
		}
		c.outstanding++
		c.asked += n
		c.underWay.Go(func() { c.claim(n, wait) })
	}
}

// claim claims up to n jobs. After a failure it delays the next claim, longer each time.
func (c *claims) claim(n int, wait time.Duration) {
	got, sent, err := c.claimOnce(n, wait)
	took := time.Since(sent)
	var back []*task
	var lost error // the server no longer knows the key, so the worker holds no jobs
	if err == nil && got != nil {
		c.OnEvent(Event{Claim: got.ID, Jobs: len(got.Jobs), Took: took})
		back = c.jobs.take(got, sent)
	}

	if err == nil && wait == 0 {
		c.measured(took)
	}

	c.mu.Lock()
	pause := time.Duration(0)
	switch {
	case err == nil:
		c.failures, c.wrongKey = 0, time.Time{}
		c.most = min(2*c.most, c.Batch)
		switch {
		case got == nil:
			c.atOnce = 1
		case len(got.Jobs) >= n:
			c.atOnce = min(2*c.atOnce, maxClaims)
		}
	case c.stopping.Err() != nil:
	case wrongKey(err) && (c.wrongKey.IsZero() || sent.Before(c.wrongKey)):
		// The source of the key may have got another one since the claim was sent, so one more claim decides.
		if c.wrongKey.IsZero() {
			c.wrongKey = time.Now()
		}
		pause = backoff.Wait(0)
	case refusedForGood(err):
		c.problems.refuse(fmt.Errorf("claim: %w", err))
		c.stop()
		if wrongKey(err) {
			lost = fmt.Errorf("%w: %w", ErrLeaseLost, err)
		}
	default:
		if errors.Is(err, client.ErrAnswerTooLarge) {
			// The limit on payload bytes of a claim does not count histories and outputs. Half as many jobs have about
			// half of them. One job always fits.
			c.most = max(n/2, 1)
		}
		c.atOnce = 1
		pause = backoff.Wait(c.failures)
		c.failures++
		c.Logger.Warn("cannot claim; will retry", "after", pause, "error", err)
	}
	c.mu.Unlock()
	if lost != nil { // no report would be accepted
		c.jobs.loseAll(lost)
		c.abort()
	}
	if pause > 0 {
		backoff.Sleep(c.stopping, pause)
	}

	c.mu.Lock()
	c.outstanding--
	c.asked -= n
	if wait > 0 {
		c.waits = false
	}
	c.mu.Unlock()
	c.more()
	c.jobs.giveBack(back)
}

// claimOnce sends one claim for up to jobs jobs. If the worker stops before the answer, the claim is aborted after lastAnswer, or after
// lastClaim if it waits for jobs at the server.
func (c *claims) claimOnce(jobs int, wait time.Duration) (got *client.Claim, sent time.Time, err error) {
	q := client.ClaimRequest{
		RunnerID: c.RunnerID, Max: jobs, Clients: c.Clients, Types: c.Types, LeaseMs: c.Lease.Milliseconds(), Wait: wait,
		Strategy: c.Strategy,
	}
	if c.BeginLater {
		q.Begins = new(int)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	defer context.AfterFunc(c.stopping, func() {
		last := lastAnswer
		if wait > 0 {
			last = c.patience(lastClaim)
		}
		backoff.Sleep(ctx, last)
		cancel()
	})()
	sent = time.Now()
	n, err := c.session.begin(ctx, c.client)
	if err != nil {
		return nil, sent, err
	}
	defer n.end()
	sent = time.Now()
	claim := func(ctx context.Context, to *client.Client) error {
		return n.send(ctx, to, func(to *client.Client) (err error) {
			got, err = to.Claim(ctx, q)
			return err
		})
	}
	err = claim(ctx, c.client)
	if err != nil && c.stopping.Err() != nil {
		// The claim may have got jobs, which would be idle until the end of their lease. A repeat returns them, so that
		// the worker can return them to their queues. If the claim got none, the repeat waits and is aborted as well.
		patience := c.patience(lastRepeat)
		last, cancel := context.WithTimeout(c.ctx, patience)
		defer cancel()
		sent = time.Now()
		err = claim(last, once(c.client, patience))
	}
	if got != nil && len(got.Jobs) == 0 {
		got = nil
	}
	return got, sent, err
}

// patience returns how long to wait for a claim: least, or longer on a slow machine or network.
func (c *claims) patience(least time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return least + 8*c.roundTrip
}

// measured adds the duration of a request to the average.
func (c *claims) measured(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took = min(max(took, minRoundTrip), maxRoundTrip)
	c.roundTrip += (took - c.roundTrip) / 8
}

// late records that a job has waited too long for a handler.
func (c *claims) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noAheadUntil = time.Now().Add(noAheadFor)
}

// wait waits until no claim is outstanding. The context of stopping has ended.
func (c *claims) wait() {
	c.mu.Lock() // so that a call of more that has not seen the end of stopping has begun its claims
	begun := &c.underWay
	c.mu.Unlock()
	begun.Wait()
}

// subscribed makes the stream send the jobs from now on, instead of claims.
func (c *claims) subscribed(credit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening, c.streamed, c.credit = false, true, credit
}

// unsubscribed sends no claims until the stream is opened again, or noStream is called.
func (c *claims) unsubscribed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streamed, c.opening = false, true
}

// noStream makes the worker claim by HTTP requests.
func (c *claims) noStream() {
	c.mu.Lock()
	c.opening = false
	c.mu.Unlock()
	c.more()
}

// wanted returns the credit that the stream should have.
func (c *claims) wanted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room()
}

// decided returns the credit that setCredit has decided on.
func (c *claims) decided() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.credit
}

// room returns how many jobs the server may count as held by the worker: jobs that run, jobs in advance, and jobs
// whose reports are outstanding, minus the jobs that outstanding HTTP claims may return. mu is held.
func (c *claims) room() int {
	l := c.jobs.load()
	may := c.handlers() + c.ahead(l.meanTook)
	return max(0, min(may+min(l.unreported, may)-c.asked, maxCredit))
}

// setCredit sets the credit again if it has changed by a notable amount. mu is held.
func (c *claims) setCredit() {
	want := c.room()
	if d := want - c.credit; want == c.credit || max(d, -d) < c.credit/8 && want > c.handlers() {
		return
	}
	c.credit = want
	signal(c.changed)
}

// refusedForGood reports whether a claim that failed with err would always fail.
func refusedForGood(err error) bool {
	var refused *client.Error
	if !errors.As(err, &refused) {
		return errors.Is(err, client.ErrBadRequest) // the claim cannot be sent at all
	}
	return refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusRequestTimeout && refused.Status != http.StatusTooManyRequests || refused.WrongKey()
}

// wrongKey reports whether the server refuses the key itself, and not only a claim with it.
func wrongKey(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.WrongKey()
}
