package ingest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
)

// Claim hands out jobs. Without a job, it waits for one, at most for the duration wait. It returns the claim and the
// documents of its jobs. If no job arrived in time, the returned claim has no runs.
//
// A claim is journaled only if there may be a job for it. If it is journaled but other claims were faster, it waits for
// the rest of its time, and keeps its place in line.
//
// If ctx ends before Claim returns, the engine releases the jobs of the claim. It keeps them if the claim has an
// idempotency key or a session number: a repeat of the claim then gets the jobs that the claim still holds. If a key or
// number is refused, Claim returns the refusal as an error; see store.Made.
func (e *Engine) Claim(ctx context.Context, c job.Claim, wait time.Duration) (applied.Claimed, []job.Job, Receipt, error) {
	claimed, handed, receipt, err := e.ClaimAdmitted(ctx, c, wait, func(int64) error { return nil })
	if err != nil {
		return claimed, nil, receipt, err
	}
	docs, err := runs.Documents(handed)
	return claimed, docs, receipt, err
}

// ClaimAdmitted is Claim for a caller that bounds its memory. It returns the jobs as runs, whose payloads share memory
// with the store and must not be changed.
//
// When the claim is applied, ClaimAdmitted calls admit with an upper bound on the bytes of the payloads. Then it reads
// the jobs. If admit returns an error, ClaimAdmitted returns that error, and the engine releases the jobs even if the
// claim has a key or number. Only a claim that repeats an earlier claim keeps its jobs.
func (e *Engine) ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, Receipt, error) {
	if err := e.accepting(); err != nil {
		return applied.Claimed{}, nil, Receipt{}, err
	}
	if err := narrow(ctx, &c); err != nil {
		return applied.Claimed{}, nil, Receipt{}, err
	}
	r := claimRequest{e: e, cmd: c, admit: admit}
	a, err := r.answer(ctx, wait)
	return a.claimed, a.handed, a.receipt, err
}

// ClaimUntil is ClaimAdmitted for a caller that waits for jobs until it closes stop. A claim that has found jobs by then
// returns them. Ending ctx would release them.
func (e *Engine) ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, Receipt, error) {
	if err := e.accepting(); err != nil {
		return applied.Claimed{}, nil, Receipt{}, err
	}
	if err := narrow(ctx, &c); err != nil {
		return applied.Claimed{}, nil, Receipt{}, err
	}
	r := claimRequest{e: e, cmd: c, admit: admit, stop: stop}
	a, err := r.answer(ctx, forever)
	return a.claimed, a.handed, a.receipt, err
}

// narrow limits a claim to the scope of the key of a context. It returns a job.ErrOutOfScope if the claim names anything else.
func narrow(ctx context.Context, c *job.Claim) error {
	key := job.KeyOf(ctx)
	if key == nil {
		return nil
	}
	if err := key.Narrow(c); err != nil {
		return err
	}
	return key.Permits(*c)
}

// forever is the wait of a claim that only its caller ends.
const forever time.Duration = math.MaxInt64

// claimRequest is a claim for which a caller waits.
type claimRequest struct {
	e        *Engine
	cmd      job.Claim
	admit    func(payloadBytes int64) error
	stop     <-chan struct{} // closed when the claim must wait no longer; nil: never
	ticket   uint64          // its place in line
	group    *runnerClaims   // the claims of its runner that are in progress
	lookedUp bool            // an earlier claim was looked up, or the claim has neither key nor number
}

// claimAnswer is the answer to a claim. It is zero if no job arrived in time.
type claimAnswer struct {
	claimed applied.Claimed
	handed  []runs.Run
	receipt Receipt
}

// answer carries out the claim, after other requests with the same key or in the same slot.
func (r *claimRequest) answer(ctx context.Context, wait time.Duration) (claimAnswer, error) {
	r.group = r.e.silences.begin(r.cmd.Runner)
	defer r.e.silences.answer(r.group)
	once := &r.cmd.Once
	if !once.Given() {
		r.lookedUp = true
		return r.take(ctx, wait, nil)
	}
	began := time.Now()
	end, err := r.e.beginOnce(ctx, once)
	if err != nil {
		return claimAnswer{}, err
	}
	defer end()
	// A number is looked up only if the claim is about to wait, or is refused. If there are jobs, the repeat is
	// journaled, and Apply detects it. Repeats are rare, so this costs less than a look-up for each claim.
	refused := r.e.mayAddKey(ctx, once)
	if !once.Numbered() || refused != nil {
		if a, repeats, err := r.repeat(ctx); repeats || err != nil {
			return a, err
		}
	}
	if refused != nil {
		return claimAnswer{}, refused
	}
	return r.take(ctx, wait-time.Since(began), nil)
}

// The states of an unanswered claim.
type claimState int

const (
	looking  claimState = iota // for open jobs
	waiting                    // parked, until it is woken with an offer
	offered                    // to be proposed
	proposed                   // until Apply has decided
)

// take moves a claim through its states until it has jobs or its wait is over:
//
//	looking  -> offered   there are open jobs
//	looking  -> waiting   there are no jobs, or all are offered to other claims
//	waiting  -> offered   it was woken
//	offered  -> proposed
//	proposed -> waiting   other claims took the jobs, or the create of the jobs was not stored; it keeps its ticket
//	proposed -> looking   all its jobs were set aside or purged, or an exchange proposed it without a look
//
// It begins with looking, or with proposed if w is the proposal of an exchange.
func (r *claimRequest) take(ctx context.Context, wait time.Duration, w *waiter) (claimAnswer, error) {
	line, waits, looked := r.e.parked, wait > 0, false
	r.ticket = line.enter()
	var timeout <-chan time.Time
	var o offer
	state := looking
	if w != nil {
		state = proposed
	}
	for {
		switch state {
		case looking:
			looked = true
			found, ok, err := r.look(ctx, waits)
			if err != nil {
				return claimAnswer{}, err
			}
			if ok {
				o, state = found, offered
				continue
			}
			if a, repeats, err := r.repeat(ctx); repeats || err != nil {
				return a, err
			}
			state = waiting
		case waiting:
			if !waits {
				return claimAnswer{}, nil
			}
			if timeout == nil && wait != forever {
				timer := time.NewTimer(wait)
				defer timer.Stop()
				timeout = timer.C
			}
			got, woken, err := r.wait(ctx, timeout)
			if err != nil || !woken {
				return claimAnswer{}, err
			}
			o, state = got, offered
		case offered:
			var err error
			switch w, err = r.propose(ctx, o); {
			case err == nil:
				state = proposed
			case o.early && r.mayWait(ctx, err):
				state = waiting
			default:
				return claimAnswer{}, err
			}
		case proposed:
			result, receipt, err := r.e.decision(ctx, w)
			if err != nil && o.early && r.mayWait(ctx, err) {
				state = waiting
				continue
			}
			if err != nil {
				return claimAnswer{}, err
			}
			claimed := result.(*applied.Claimed)
			switch {
			case claimed.Replayed || claimed.Refusal != job.Granted:
				return r.earlier(claimed)
			case len(claimed.Runs) == 0 && looked:
				state = waiting
				continue
			case len(claimed.Runs) == 0:
				state = looking
				continue
			}
			handed, err := r.read(ctx, claimed)
			if err == errSilent {
				return claimAnswer{}, nil
			}
			if err != nil || len(handed) > 0 || r.cmd.Once.Given() {
				return claimAnswer{*claimed, handed, receipt}, err
			}
			state = looking
		}
	}
}

// look makes an offer to the claim, from a state that includes all commands that were stored before the call. A claim
// that does not wait looks at all pending jobs, because the claims with offers for them may take fewer.
func (r *claimRequest) look(ctx context.Context, waits bool) (o offer, ok bool, err error) {
	e, c := r.e, &r.cmd
	find := func() bool {
		if waits {
			o, ok = e.parked.find(c)
		} else if ok = e.store.Available(c.Clients, c.Types); ok {
			o, _ = e.parked.find(c)
			o.early = false
		}
		return ok
	}
	if find() {
		return o, true, nil
	}
	if err := e.CatchUp(ctx, 0); err != nil {
		return o, false, err
	}
	find()
	return o, ok, nil
}

// propose proposes the claim. The offer ends when the claim is applied or has failed.
func (r *claimRequest) propose(ctx context.Context, o offer) (*waiter, error) {
	w, p, err := r.proposal(ctx, o)
	if err = cmp.Or(r.e.accepting(), err); err == nil {
		err = r.e.propose(ctx, p)
	}
	if err != nil {
		r.e.parked.end(o)
	}
	return w, err
}

func (r *claimRequest) proposal(ctx context.Context, o offer) (*waiter, *journal.Proposal, error) {
	lane, line := laneOf(r.cmd), r.e.parked
	if o.early {
		lane = journal.Bulk // the lane of the create, so that the log keeps their order
	}
	w := &waiter{applied: make(chan answer, 1), claims: r.group, settled: func(applied bool) {
		if applied {
			line.endApplied(o)
		} else {
			line.end(o)
		}
	}}
	p, err := newProposal(ctx, lane, r.cmd, w)
	return w, p, err
}

// mayWait reports whether a claim that was not stored may keep waiting. Its place in line must not depend on the fate of
// a create that it was woken for.
func (r *claimRequest) mayWait(ctx context.Context, err error) bool {
	return !errors.Is(err, ErrUnknown) && ctx.Err() == nil && r.e.accepting() == nil
}

// repeat answers the claim if it repeats an earlier claim, which repeat looks up only once.
func (r *claimRequest) repeat(ctx context.Context) (a claimAnswer, repeats bool, err error) {
	if r.lookedUp {
		return claimAnswer{}, false, nil
	}
	r.lookedUp = true
	if err := r.e.CatchUp(ctx, 0); err != nil {
		return claimAnswer{}, false, errors.Join(ErrNotStored, err)
	}
	before, err := r.e.store.ClaimedBefore(&r.cmd.Once, r.e.Now())
	if err != nil || before == nil {
		return claimAnswer{}, false, err
	}
	a, err = r.earlier(before)
	return a, true, err
}

// earlier returns the answer to a claim that repeats c: the jobs of the first answer that the claim still holds.
func (r *claimRequest) earlier(c *applied.Claimed) (claimAnswer, error) {
	if c.Refusal != job.Granted {
		return claimAnswer{}, c.Refusal
	}
	if err := r.admit(c.PayloadBytes); err != nil {
		return claimAnswer{}, err
	}
	held, err := r.e.store.Held(c)
	if errors.Is(err, store.ErrDamaged) {
		if err = r.e.setAside(context.Background(), c, err); err == nil {
			held, err = r.e.store.Held(c)
		}
	}
	return claimAnswer{*c, held, Receipt{Seq: c.Seq, At: c.Claim.At()}}, err
}

// read returns the jobs that were just handed out. If reading them fails, the engine releases the jobs.
func (r *claimRequest) read(ctx context.Context, claimed *applied.Claimed) (handed []runs.Run, err error) {
	e := r.e
	if err = r.admit(claimed.PayloadBytes); err != nil && ctx.Err() == nil {
		// A repeat of the claim waits until read has returned, and must not find the jobs.
		e.unget(context.WithoutCancel(ctx), claimed.Claim)
		return nil, err
	}
	if err == nil && r.group.isSilent() {
		e.unget(context.WithoutCancel(ctx), claimed.Claim)
		return nil, errSilent
	}
	if err == nil {
		handed, err = e.store.HandedOut(claimed)
		if errors.Is(err, store.ErrDamaged) {
			if err = e.setAside(ctx, claimed, err); err == nil {
				handed, err = e.store.HandedOut(claimed)
			}
		}
		if err == nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		e.giveBack(claimed, r.group)
		return nil, err
	}
	return handed, nil
}

// errSilent: the claim was being applied when its runner was found to be silent.
var errSilent = errors.New("the runner has proved silent")

// setAside defers the jobs of a claim whose payload, unique key or history cannot be read, so that they do not block the
// jobs after them. They wait until a user runs them. A rebuild of the store repairs them. If no job is unreadable,
// setAside returns why, the original read error. In a cluster, the caller returns the jobs instead, and this node fetches the
// state of another one.
func (e *Engine) setAside(ctx context.Context, c *applied.Claimed, why error) error {
	ids, err := e.store.SetAside(c)
	if err != nil || len(ids) == 0 {
		return cmp.Or(err, why)
	}
	if e.shared != nil && e.shared.Distrust(why) { // other nodes can read them
		return why
	}
	cmd := job.Complete{Claim: c.Claim}
	for _, id := range ids {
		cmd.Outcomes = append(cmd.Outcomes, job.Outcome{ID: id, Code: job.Damaged, DelayMs: -1})
	}
	if _, _, err := e.decide(ctx, cmd); err != nil {
		return err
	}
	e.counters.setAsideJobs.Add(uint64(len(ids)))
	e.logger.Error("jobs cannot be read; they are deferred until a user runs them; `daybook rebuild` repairs the store", "jobs", len(ids), "first_id", ids[0].String(), "last_id", ids[len(ids)-1].String(), "error", why)
	return nil
}

// wait parks the claim until it is woken, its time is over, or its caller gives up.
func (r *claimRequest) wait(ctx context.Context, timeout <-chan time.Time) (o offer, woken bool, err error) {
	p, err := r.e.parked.park(r.ticket, r.e.ownerOf(ctx), &r.cmd)
	if err != nil {
		return o, false, cmp.Or(r.e.accepting(), err)
	}
	defer r.e.parked.leave(p)
	if r.group.isSilent() { // nobody may read this answer; a live client can claim again
		return o, false, nil
	}
	select {
	case <-r.group.silent:
		return o, false, nil
	case o, open := <-p.woken:
		if !open {
			return o, false, ErrClosed
		}
		return o, true, nil
	case <-timeout:
		return o, false, nil
	case <-r.stop:
		return o, false, nil
	case <-ctx.Done():
		return o, false, errors.Join(ErrNotStored, ctx.Err())
	}
}
