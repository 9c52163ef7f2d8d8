package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job"
)

// load is the load that a lane puts on its server.
type load struct {
	producers, runners, readers int
	streams                     int   // runners with streams
	operators                   int   // users who cancel and redrive
	lines                       int   // lines of a batch, at most
	size                        int   // bytes of filler in a payload; one post in fifty has a hundred times as many
	backlog                     int64 // producers wait while more jobs than this are unfinished
	chains                      bool  // jobs have an on_complete, and outcomes create jobs
	longLeases                  bool  // leases are longer than a stop
}

var standardLoad = load{producers: 3, runners: 4, streams: 2, readers: 1, operators: 1, lines: 120, size: 150, backlog: 3000, chains: true}

// crowd runs a load until it is stopped.
type crowd struct {
	u    *user
	l    load
	seed uint64
	name string

	unfinished atomic.Int64 // unfinished jobs at the last count, and jobs posted since
	acked      atomic.Int64 // acknowledged creates
	refused    atomic.Int64 // creates that were refused because the disk is full

	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup

	recent struct {
		sync.Mutex
		ids []job.ID // some recent jobs, for readers and operators
	}
}

func newCrowd(u *user, l load, name string, seed uint64) *crowd {
	c := &crowd{u: u, l: l, seed: seed, name: name}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if l.producers > 0 {
		c.all.Go(c.watch)
	}
	for i := range l.producers {
		c.all.Go(func() { c.produce(i) })
	}
	for i := range l.runners {
		c.all.Go(func() { c.run(i, false) })
	}
	for i := range l.streams {
		c.all.Go(func() { c.runInStream(i) })
	}
	for i := range l.operators {
		c.all.Go(func() { c.operate(i) })
	}
	for i := range l.readers {
		c.all.Go(func() { c.read(i) })
	}
	return c
}

// end stops all users and waits for them.
func (c *crowd) end() {
	c.stop()
	c.all.Wait()
}

func (c *crowd) rng(role string, i int) *rand.Rand {
	h := c.seed
	for _, b := range []byte(role) {
		h = h*1099511628211 ^ uint64(b)
	}
	return rand.New(rand.NewPCG(h, uint64(i)))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

const longLease = 2500 // ms

const retryPause = 5 * time.Millisecond // between attempts to reach a server that is down

// watch counts the unfinished jobs.
func (c *crowd) watch() {
	for c.ctx.Err() == nil {
		if left, err := c.u.unfinished(c.ctx); err == nil {
			c.unfinished.Store(left)
		}
		pause(c.ctx, 50*time.Millisecond)
	}
}

func (c *crowd) produce(i int) {
	rng := c.rng("producer", i)
	u := c.u
	if i%2 == 1 {
		u = u.overStreams(fmt.Sprintf("%s-producer-%d", c.name, i), rng)
		defer u.stream.close(u)
	}
	for n := 0; c.ctx.Err() == nil; n++ {
		if c.unfinished.Load() > c.l.backlog {
			pause(c.ctx, retryPause)
			continue
		}
		p := &post{tag: fmt.Sprintf("%s-%d-%d", c.name, i, n), lines: 1, size: c.l.size, maxAttempts: int32(20 + rng.IntN(20)), leaseMs: minLeaseMs + int64(rng.IntN(3))*250}
		if c.l.longLeases {
			p.leaseMs = longLease
		}
		if rng.IntN(4) > 0 {
			p.lines = 1 + rng.IntN(c.l.lines)
		} else {
			p.form = form(rng.IntN(int(forms)))
		}
		if p.form == asArray {
			p.lines = 1 + rng.IntN(c.l.lines)
		}
		p.keyed = rng.IntN(3) == 0
		p.follows = c.l.chains && p.form != asLines && rng.IntN(4) > 0
		if rng.IntN(8) == 0 {
			p.delayMs = int64(rng.IntN(400))
		}
		if rng.IntN(8) == 0 {
			p.maxAttempts = int32(1 + rng.IntN(3))
		}
		if rng.IntN(50) == 0 {
			p.size *= 100
			p.lines = 1 + p.lines/4
		}
		r, err := u.create(c.ctx, p)
		switch {
		case err != nil:
			pause(c.ctx, retryPause)
		case r.ok():
			c.unfinished.Add(int64(p.lines))
			c.acked.Add(1)
			if !p.first.IsZero() && rng.IntN(3) == 0 {
				c.remember(p.id(rng.IntN(p.lines)))
			}
		case r.problem.Code == "disk_full":
			c.refused.Add(1)
			pause(c.ctx, 20*time.Millisecond)
		default:
			pause(c.ctx, retryPause)
		}
	}
}

// recall returns one of the recent jobs, or zero if there is none.
func (c *crowd) recall(rng *rand.Rand) (id job.ID) {
	c.recent.Lock()
	defer c.recent.Unlock()
	if n := len(c.recent.ids); n > 0 {
		id = c.recent.ids[rng.IntN(n)]
	}
	return id
}

func (c *crowd) remember(id job.ID) {
	c.recent.Lock()
	defer c.recent.Unlock()
	if c.recent.ids = append(c.recent.ids, id); len(c.recent.ids) > 200 {
		c.recent.ids = c.recent.ids[100:]
	}
}

// read reads jobs while they change.
func (c *crowd) read(i int) {
	rng := c.rng("reader", i)
	for c.ctx.Err() == nil {
		id := c.recall(rng)
		if id.IsZero() {
			pause(c.ctx, retryPause)
			continue
		}
		if _, _, err := c.u.get(c.ctx, id); err != nil {
			pause(c.ctx, retryPause)
		}
		pause(c.ctx, time.Millisecond)
	}
}

func (c *crowd) outcome(rng *rand.Rand) outcome {
	switch n := rng.IntN(20); {
	case n < 13:
		return outcome{code: "ok"}
	case n < 15:
		return outcome{code: "failed"}
	case n < 17:
		return outcome{code: "retry"}
	case n < 18:
		return outcome{code: "retry", delayMs: 200}
	default:
		return outcome{code: "error", delayMs: int64(rng.IntN(2)) * 300}
	}
}

// vary gives a claim a short lease now and then, unless it drains the queue, and any strategy.
func (c *crowd) vary(w *claimRequest, rng *rand.Rand, drain bool) {
	if !drain && rng.IntN(10) == 0 && !c.l.longLeases {
		w.leaseMs = 1200
	}
	w.strategy = anyStrategy(rng)
}

// run claims and ends jobs. With drain, it ends all with ok.
func (c *crowd) run(i int, drain bool) {
	rng := c.rng("runner", i)
	name := fmt.Sprintf("%s-%d", c.name, i)
	var chained *grant
	for c.ctx.Err() == nil {
		w := claimRequest{runner: name, max: []int{0, 1, 10, 50, 100}[rng.IntN(5)], waitMs: rng.IntN(3) * 50}
		c.vary(&w, rng, drain)
		w.runs = rng.IntN(2) == 0
		if drain {
			w.max = 500
		}
		if chained != nil {
			w.ends, w.with = chained, outcome{code: "ok"}
		}
		g, r, err := c.u.claim(c.ctx, w)
		switch {
		case err != nil || r.open() || r.status >= 400:
			pause(c.ctx, retryPause)
			if err == nil && r.open() && w.ends != nil { // it is unknown whether the jobs were ended
				c.retry(rng, func() (*reply, error) { return c.u.endAll(c.ctx, w.ends, w.with) })
			}
			if err == nil {
				chained = nil
			}
			continue
		}
		chained = nil
		if g.empty() {
			pause(c.ctx, time.Millisecond)
			continue
		}
		if drain {
			c.retry(nil, func() (*reply, error) { return c.u.endAll(c.ctx, g, outcome{code: "ok"}) })
			continue
		}
		chained = c.work(c.u, rng, g)
	}
}

// retry repeats a request until it is answered. With rng, it sometimes makes only one attempt.
func (c *crowd) retry(rng *rand.Rand, ask func() (*reply, error)) {
	for c.ctx.Err() == nil {
		r, err := ask()
		if err == nil && !r.open() && r.status != 503 && r.status != 429 {
			return
		}
		if err == nil && rng != nil && rng.IntN(2) == 0 {
			return
		}
		pause(c.ctx, retryPause)
	}
}

// runInStream claims and ends jobs in streams.
func (c *crowd) runInStream(i int) {
	rng := c.rng("streaming runner", i)
	name := fmt.Sprintf("%s-stream-%d", c.name, i)
	u := c.u.overStreams(name, rng)
	defer u.stream.close(u)
	for c.ctx.Err() == nil {
		w := claimRequest{runner: name, max: []int{1, 10, 50, 100}[rng.IntN(4)], waitMs: rng.IntN(3) * 30}
		c.vary(&w, rng, false)
		grants, r, err := u.claimInStream(c.ctx, w)
		if err != nil || !r.ok() {
			pause(c.ctx, retryPause)
		}
		for _, g := range grants {
			if g.empty() {
				continue
			}
			if rng.IntN(20) == 0 { // the connection breaks, and the runner continues with another connection
				u.stream.close(u)
			}
			if chained := c.work(u, rng, g); chained != nil {
				c.retry(rng, func() (*reply, error) { return u.endAll(c.ctx, chained, outcome{code: "ok"}) })
			}
		}
	}
}

// work handles the jobs of a grant. It returns the grant if the next claim must end it.
func (c *crowd) work(u *user, rng *rand.Rand, g *grant) (chained *grant) {
	ctx := c.ctx
	if rng.IntN(6) == 0 {
		c.retry(rng, func() (*reply, error) { return u.tickle(ctx, g) })
	}
	if rng.IntN(4) == 0 {
		c.remember(g.jobs[rng.IntN(len(g.jobs))])
	}
	switch n := rng.IntN(20); {
	case n < 7:
		o := c.outcome(rng)
		c.retry(rng, func() (*reply, error) { return u.endAll(ctx, g, o) })
		if rng.IntN(10) == 0 { // once more, as if the answer had been lost
			c.retry(rng, func() (*reply, error) { return u.endAll(ctx, g, o) })
		}
	case n < 10:
		return g
	case n < 14:
		outcomes := make([]outcome, len(g.jobs))
		for i := range outcomes {
			outcomes[i] = c.outcome(rng)
		}
		chains := make([]*chain, len(g.jobs))
		for i, id := range g.jobs {
			if c.l.chains && !g.runs { // runs have no chains
				chains[i] = u.newChain(rng, id, outcomes[i])
			}
		}
		ask := func() (*reply, error) { return u.endEach(ctx, g, outcomes, chains) }
		c.retry(rng, ask)
		if rng.IntN(5) == 0 { // once more, as if the answer had been lost
			c.retry(rng, ask)
		}
	case n < 16:
		for _, id := range g.jobs[:min(len(g.jobs), 20)] {
			o, ch := c.outcome(rng), (*chain)(nil)
			if c.l.chains {
				ch = u.newChain(rng, id, o)
			}
			ask := func() (*reply, error) { return u.end(ctx, g, id, o, ch) }
			c.retry(rng, ask)
			if ch != nil && rng.IntN(5) == 0 {
				c.retry(rng, ask)
			}
		}
		c.retry(rng, func() (*reply, error) { return u.endAll(ctx, g, outcome{code: "ok"}) })
	case n < 18:
		for _, id := range g.jobs[:min(len(g.jobs), 5)] {
			c.retry(rng, func() (*reply, error) { return u.unget(ctx, g, id) })
		}
		if rng.IntN(2) == 0 && len(g.jobs) > 5 {
			c.retry(rng, func() (*reply, error) { return u.endAll(ctx, g, outcome{code: "ok"}) })
		}
	case n < 19: // too late
		pause(ctx, 1800*time.Millisecond)
		if rng.IntN(2) == 0 {
			c.retry(rng, func() (*reply, error) { return u.endAll(ctx, g, outcome{code: "ok"}) })
		} else {
			c.retry(rng, func() (*reply, error) { return u.end(ctx, g, g.jobs[0], outcome{code: "failed"}, nil) })
		}
	default: // the runner dies
	}
	return nil
}
