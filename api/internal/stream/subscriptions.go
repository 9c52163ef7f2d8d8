package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookq/daybook/api/internal/command"
	"github.com/daybookq/daybook/api/internal/refusal"
	"github.com/daybookq/daybook/api/internal/web"
	"github.com/daybookq/daybook/job"
)

const (
	MaxSubscriptions = 16     // of one stream
	maxCredit        = 10_000 // jobs that one subscription can hold
	// A subscription has a goroutine and a claim. The names in the claim take namesTimes as much memory as in the
	// request.
	SubscriptionBytes = 8 << 10
	namesTimes        = 3
	// A subscription whose claims fail tries again after firstRetry, and then after twice as long, up to lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// subscription is a selection of jobs that a stream accepts, with a limit on the held ones. Its goroutine waits for
// credit, then claims jobs and waits for them, and then sends them.
type subscription struct {
	t      *stream
	number uint64 // of the request that made it
	claim  job.Claim

	ctx    context.Context // ends with the subscription
	stop   context.CancelFunc
	memory web.Share

	mu     sync.Mutex
	credit int
	held   int
	asked  int                // size of the outstanding claim; 0: none
	cancel context.CancelFunc // ends its wait for jobs
	waited chan struct{}      // closed when it has ended
	freed  chan struct{}      // capacity 1; signals that there may be credit
	ended  chan struct{}      // closed when the subscription sends no more jobs
}

// subscriptions are the subscriptions of one stream.
type subscriptions struct {
	running sync.WaitGroup

	mu    sync.Mutex
	open  map[uint64]*subscription
	first *subscription // claims that the stream took over count against its credit
}

// beginSubscribe begins to send jobs.
func (t *stream) beginSubscribe(r *streamRequest) (finisher, error) {
	var body struct {
		command.ClaimFields
		Credit *int64 `json:"credit"`
	}
	if err := web.DecodeObject(r.Subscribe, &body); err != nil {
		return nil, err
	}
	cmd := job.Claim{Runner: t.hello.runner, Max: job.MaxClaimJobs, MaxBytes: job.DefaultClaimBytes, Announced: true}
	if cmd.Runner == "" {
		return nil, web.BadRequest("runner_id", "a stream that gets jobs must have sent hello with a runner_id")
	}
	if err := body.Fill(&cmd); err != nil {
		return nil, err
	}
	if err := job.KeyOf(t.ctx).By().Narrow(&cmd); err != nil {
		return nil, err
	}
	credit, err := creditOf(body.Credit)
	if err != nil {
		return nil, err
	}
	u := &subscription{t: t, number: *r.N, claim: cmd, credit: credit, freed: make(chan struct{}, 1), ended: make(chan struct{})}
	u.ctx, u.stop = context.WithCancel(t.pushing)
	u.memory = t.share(t.s.room.jobs)
	if !u.memory.Grow(u.ctx, SubscriptionBytes+namesTimes*int64(len(r.Subscribe)), 0) {
		u.stop()
		return nil, noRoom()
	}
	if err := t.subscriptions.add(u); err != nil {
		u.stop()
		u.memory.Release()
		return nil, err
	}
	t.holding.countFor(u)
	return func(b []byte) ([]byte, uint64, error) {
		t.subscriptions.running.Go(u.run)
		return nothingToSay(b)
	}, nil
}

// creditOf checks the field credit.
func creditOf(n *int64) (int, error) {
	if n == nil {
		return 0, web.BadRequest("credit", "credit is missing: the number of jobs that the runner can hold")
	}
	return int(*n), web.BadField("credit", job.CheckRange("credit", *n, 0, maxCredit))
}

func (l *subscriptions) add(u *subscription) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open[u.number] != nil:
		return web.BadRequest("n", fmt.Sprintf("request %d is a subscription already; a subscription has the number of its request", u.number))
	case len(l.open) == MaxSubscriptions:
		return web.BadRequest("subscribe", fmt.Sprintf("the stream has too many subscriptions; the maximum is %d", MaxSubscriptions))
	case l.open == nil:
		l.open = map[uint64]*subscription{}
	}
	l.open[u.number] = u
	if l.first == nil {
		l.first = u
	}
	return nil
}

// named returns an open subscription.
func (l *subscriptions) named(number *uint64) (*subscription, error) {
	if number == nil {
		return nil, web.BadRequest("subscription", "subscription is missing: the number of the request that made it")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.open[*number]; u != nil {
		return u, nil
	}
	return nil, web.BadRequest("subscription", fmt.Sprintf("the stream has no subscription %d", *number))
}

// beginCredit changes how many jobs a subscription can hold. Jobs that the runner already holds stay with it.
func (t *stream) beginCredit(r *streamRequest) (finisher, error) {
	var body struct {
		Subscription *uint64 `json:"subscription"`
		Credit       *int64  `json:"credit"`
	}
	if err := web.DecodeObject(r.Credit, &body); err != nil {
		return nil, err
	}
	u, err := t.subscriptions.named(body.Subscription)
	if err != nil {
		return nil, err
	}
	credit, err := creditOf(body.Credit)
	if err != nil {
		return nil, err
	}
	waited := u.setCredit(credit)
	return func(b []byte) ([]byte, uint64, error) {
		if waited != nil {
			<-waited
		}
		return nothingToSay(b)
	}, nil
}

// beginUnsubscribe ends a subscription. The answer follows after its last jobs. The stream still holds its jobs.
func (t *stream) beginUnsubscribe(r *streamRequest) (finisher, error) {
	var body struct {
		Subscription *uint64 `json:"subscription"`
	}
	if err := web.DecodeObject(r.Unsubscribe, &body); err != nil {
		return nil, err
	}
	u, err := t.subscriptions.named(body.Subscription)
	if err != nil {
		return nil, err
	}
	u.stop()
	t.subscriptions.mu.Lock()
	delete(t.subscriptions.open, u.number)
	t.subscriptions.mu.Unlock()
	return func(b []byte) ([]byte, uint64, error) {
		<-u.ended
		return nothingToSay(b)
	}, nil
}

// setCredit changes the credit. If the outstanding claim may get more jobs than that, setCredit ends its wait for jobs,
// and returns a channel that is closed when the claim has ended.
func (u *subscription) setCredit(credit int) (waited chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.credit = credit
	notify(u.freed)
	if u.asked == 0 || u.asked <= credit-u.held {
		return nil
	}
	u.cancel()
	return u.waited
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// hold adds to the number of jobs that the runner holds; n may be negative.
func (u *subscription) hold(n int) {
	u.mu.Lock()
	u.held += n
	u.mu.Unlock()
	if n < 0 {
		notify(u.freed)
	}
}

// exhausted reports whether the runner can hold no more jobs.
func (u *subscription) exhausted() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held >= u.credit
}

const (
	// A claim for a few jobs costs as much as a claim for many, and jobs that were claimed one by one also end one by
	// one. So a subscription claims when a usefulCredit-th of its credit is free, or when a smaller part has been free
	// for creditWait.
	usefulCredit = 4
	creditWait   = 2 * time.Millisecond
)

// room waits for credit, and returns the number of jobs that the next claim can take, or 0 if the subscription has
// ended.
func (u *subscription) room() int {
	var waited <-chan time.Time
	late := false
	for u.ctx.Err() == nil {
		u.mu.Lock()
		n, useful := u.credit-u.held, max(u.credit/usefulCredit, 1)
		idle := u.held == 0
		u.mu.Unlock()
		if n > 0 {
			if n >= useful || idle || late {
				return min(n, u.claim.Max)
			}
			if waited == nil {
				waited = time.After(creditWait)
			}
		}
		select {
		case <-u.freed:
		case <-waited:
			late = true
		case <-u.ctx.Done():
		}
	}
	return 0
}

// trusted reports whether the client seems to be alive. If its runner has proved silent, the client must show life
// before it gets more jobs: it must answer a ping, or send anything else. trusted waits for that for at most one
// heartbeat.
func (u *subscription) trusted() bool {
	t := u.t
	silence := t.s.Engine.Silence(t.hello.runner)
	if t.heard.Load() == silence {
		return true
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(u.ctx, t.s.Heartbeat)
	defer cancel()
	alive := t.conn.Ping(ctx) == nil || t.accepted != nil && t.accepted.HeardSince(began)
	if alive {
		t.heard.Store(silence)
	}
	return alive
}

// run claims jobs and sends them, until the subscription ends. A claim is as large as the credit allows at that time.
func (u *subscription) run() {
	defer close(u.ended)
	defer u.memory.Release()
	var reported string
	wait := firstRetry
	for u.ctx.Err() == nil {
		if !u.t.answers.waitForReader() {
			return
		}
		cmd := u.claim
		if cmd.Max = u.room(); cmd.Max == 0 {
			return
		}
		if !u.trusted() {
			continue
		}
		err := u.t.guarded(func() error { return u.push(cmd) })
		if errors.Is(err, web.ErrPanic) {
			u.t.s.Log.Error().AnErr("error", err).Msg("a stream has ended")
			_ = u.t.conn.CloseNow()
			return
		}
		if err == nil {
			reported, wait = "", firstRetry
			continue
		}
		if u.ctx.Err() != nil {
			return
		}
		if p := refusal.Of(err); p.Code != reported {
			reported = p.Code
			u.t.answers.add(appendProblem(fmt.Appendf(nil, `{"subscription":%d`, u.number), err), 0)
		}
		select {
		case <-time.After(wait):
		case <-u.ctx.Done():
		}
		wait = min(2*wait, lastRetry)
	}
}

// count returns the number of open subscriptions.
func (l *subscriptions) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}
