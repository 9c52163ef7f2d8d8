package rates

import (
	"context"
	"time"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// Engine is an engine that counts the jobs of the creates and claims of keys. All requests for these pass here, over HTTP and in
// streams. The key is in the context.
type Engine struct {
	backend.Engine
	rates *Rates
}

// Over returns an engine that counts.
func (r *Rates) Over(engine backend.Engine) *Engine { return &Engine{engine, r} }

func (e *Engine) Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	if err := e.mayCreate(ctx, c); err != nil {
		return applied.Made{}, ingest.Receipt{}, err
	}
	return e.Engine.Create(ctx, c)
}

func (e *Engine) StartCreate(ctx context.Context, c *job.Create) (wait func() (applied.Made, ingest.Receipt, error)) {
	if err := e.mayCreate(ctx, c); err != nil {
		return func() (applied.Made, ingest.Receipt, error) { return applied.Made{}, ingest.Receipt{}, err }
	}
	return e.Engine.StartCreate(ctx, c)
}

func (e *Engine) mayCreate(ctx context.Context, c *job.Create) error {
	u := e.rates.of(job.KeyOf(ctx))
	if u == nil || c.Lines() == 0 {
		return nil
	}
	return u.take(u.ofCreates, int64(c.Lines()), jobsCreated)
}

// ClaimAdmitted gives a claim at most as many jobs as the key may claim now. If as many claims of the key wait as may, another one
// does not wait: it gets jobs that are there, or is refused.
func (e *Engine) ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	return e.claim(ctx, c, wait > 0, func(c job.Claim, waits bool) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
		if !waits {
			wait = 0
		}
		return e.Engine.ClaimAdmitted(ctx, c, wait, admit)
	})
}

// ClaimUntil is ClaimAdmitted for a subscription. Until the key may claim, it waits.
func (e *Engine) ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	if !e.rates.of(job.KeyOf(ctx)).pace(ctx, stop) {
		return applied.Claimed{}, nil, ingest.Receipt{}, ctx.Err()
	}
	return e.claim(ctx, c, true, func(c job.Claim, waits bool) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
		if !waits {
			return e.Engine.ClaimAdmitted(ctx, c, 0, admit)
		}
		return e.Engine.ClaimUntil(ctx, c, stop, admit)
	})
}

// pace waits until the key may claim. It reports false if stop was closed or ctx has ended before.
func (u *usage) pace(ctx context.Context, stop <-chan struct{}) bool {
	for {
		_, wait := u.claimable()
		if wait == 0 {
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return false
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// claimable returns how many jobs the key may claim now, or how long to wait.
func (u *usage) claimable() (n int, wait time.Duration) {
	if u == nil {
		return job.MaxClaimJobs, 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.claims == nil {
		return job.MaxClaimJobs, 0
	}
	now := u.all.now()
	if wait := u.claims.wait(now); wait > 0 {
		return 0, wait
	}
	return int(min(u.claims.TokensAt(now), job.MaxClaimJobs)), 0
}

func (e *Engine) claim(ctx context.Context, c job.Claim, waits bool, do func(c job.Claim, waits bool) (applied.Claimed, []runs.Run, ingest.Receipt, error)) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	u := e.rates.of(job.KeyOf(ctx))
	if u == nil {
		return do(c, waits)
	}
	if err := u.take(u.ofClaims, 0, jobsClaimed); err != nil {
		return applied.Claimed{}, nil, ingest.Receipt{}, err
	}
	most, _ := u.claimable()
	c.Max = min(c.Max, max(most, 1))
	var full error
	if waits {
		leave, err := u.enter(&u.parked, func() int64 { return u.rates.ParkedClaims }, waitingOnes)
		if full = err; err == nil {
			defer leave()
		}
	}
	claimed, handed, receipt, err := do(c, waits && full == nil)
	if err == nil && !claimed.Replayed {
		u.claimed(handed)
	}
	if err == nil && len(handed) == 0 && full != nil {
		err = full
	}
	return claimed, handed, receipt, err
}

// claimed counts the jobs of a claim.
func (u *usage) claimed(handed []runs.Run) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.claims == nil {
		return
	}
	n := 0
	for i := range handed {
		n += handed[i].N
	}
	u.claims.charge(u.all.now(), int64(n))
}

// Exchange carries out completions and a claim. The completions are never refused; if the claim may be, it is proposed after them.
func (e *Engine) Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	if e.rates.of(job.KeyOf(ctx)) == nil {
		return e.Engine.Exchange(ctx, commands, c)
	}
	return ingest.InTurn(e, commands, c), nil
}
