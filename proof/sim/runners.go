package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// runner claims, works, tickles and completes. It may also forget the jobs that it holds, or sleep until its leases have
// ended. It survives the server's crashes.
type runner struct {
	name     string
	instance int // of its heartbeats
	held     []heldClaim
	stream   bool // it gets its jobs through a stream
	claims   int  // that it made with a key
	numbers  *numbering
}

// heldClaim is a claim as its runner remembers it.
type heldClaim struct {
	claim      job.ID
	jobs       []job.ID
	unanswered *job.Complete   // a request without an answer, which must be repeated
	begun      map[job.ID]bool // of a stream: the jobs whose runs have begun
	returned   bool            // the stream has taken the jobs from the runner
}

func (s *server) run(id int, r *runner) {
	u := s.user(id)
	for u.rest(100 * time.Millisecond) {
		u.heartbeat(r)
		switch n := u.random.IntN(100); {
		case n < 40 || len(r.held) == 0:
			u.claim(r)
		case n < 60:
			u.tickle(r)
		case n < 90:
			u.complete(r)
		case n < 95:
			u.completeUnclaimed()
		case n < 97: // the runner forgets its jobs
			r.held, r.numbers = nil, newNumbering()
		default: // sleeps until its leases have ended
			u.rest(8 * time.Second)
		}
	}
}

// wish makes a claim for the runner, without a key or number, and chooses how long it waits.
func (u *user) wish(r *runner) (c job.Claim, wait time.Duration) {
	c = job.Claim{Runner: r.name, Max: 1 + u.random.IntN(pick(u.random, 3, 30)), MaxBytes: job.MaxClaimBytes}
	switch u.random.IntN(8) {
	case 0, 1:
		c.Types = []string{pick(u.random, "resize", "mail", briefType)}
	case 2, 3, 4:
		c.Types = pick(u.random, []string{movedType}, []string{filledType}, []string{filledType, movedType})
	default:
		c.Types = []string{"resize", "mail", briefType}
	}
	c.Strategy = pick(u.random, job.Oldest, job.Oldest, job.Newest, job.Random, job.Fair)
	for range pick(u.random, 0, 0, 1, 2) {
		over, err := job.PreferDistinct(pick(u.random, "of", "user"), c.Strategy)
		if err != nil {
			panic(err)
		}
		c.Strategy = over
	}
	if u.random.IntN(5) == 0 {
		c.Clients = []string{pick(u.random, "acme", "default")}
	}
	if u.random.IntN(3) == 0 {
		c.LeaseMs = int64(1000 + u.random.IntN(3000))
	}
	if u.random.IntN(3) == 0 { // tickles that name jobs also say which further runs begin
		c.Announced, c.Begins = true, u.random.IntN(3)
	}
	if u.random.IntN(2) == 0 {
		wait = time.Duration(u.random.IntN(1500)) * time.Millisecond
	}
	if u.key != nil { // lists that are empty now are for all that the key has
		c.Clients = nil
		c.Types = slices.DeleteFunc(c.Types, func(typ string) bool { return !u.key.HasType(typ) })
	}
	return c, wait
}

func (u *user) claim(r *runner) {
	c, wait := u.wish(r)
	switch u.random.IntN(3) {
	case 0:
		r.claims++
		c.Once = job.Once{Scope: "claim " + r.name, Key: fmt.Sprint(r.claims)}
	case 1:
		u.number(r.numbers, &c.Once)
	}
	defer r.numbers.answered(&c.Once) // or the runner gives up
	var claimed applied.Claimed
	var docs []job.Job
	var receipt ingest.Receipt
	err := u.request(func(ctx context.Context) (err error) {
		claimed, docs, receipt, err = u.s.claim(ctx, c, wait)
		return err
	})
	lost := err != nil && !notStored(err)
	// The runner repeats the request. If the repeat is refused, the server may still have carried out the first one.
	if lost && c.Once.Given() {
		u.s.log("%s claims, and asks again: %v", r.name, err)
		err = u.request(func(ctx context.Context) (err error) {
			claimed, docs, receipt, err = u.s.claim(ctx, c, wait)
			return err
		})
	}
	u.unexpected("claim", err)
	u.s.log("%s claims: %v, %d jobs, %v", r.name, receipt, len(docs), err)
	if err != nil {
		return
	}
	u.got(r, c, receipt, claimed, docs)
}

// got records the jobs that a claim got.
func (u *user) got(r *runner, c job.Claim, receipt ingest.Receipt, claimed applied.Claimed, docs []job.Job) {
	u.violated(u.w.account.claimed(u.key, receipt, c, claimed, docs))
	if len(docs) == 0 {
		return
	}
	h := heldClaim{claim: claimed.Claim}
	for i := range docs {
		h.jobs = append(h.jobs, docs[i].ID)
	}
	r.held = append(r.held, h)
	if len(r.held) > 4 {
		if again := r.held[0].unanswered; again != nil {
			r.numbers.answered(&again.Once)
		}
		r.held = r.held[1:]
	}
}

// some returns a few of the jobs.
func (u *user) some(jobs []job.ID) (few []job.ID) {
	for _, id := range jobs {
		if u.random.IntN(3) == 0 {
			few = append(few, id)
		}
	}
	return few
}

func (u *user) tickle(r *runner) {
	h := r.held[u.random.IntN(len(r.held))]
	t := job.Tickle{Claim: h.claim, Progress: -1}
	if u.random.IntN(2) == 0 {
		if t.IDs = u.some(h.jobs); len(t.IDs) > 0 {
			t.Step, t.Progress = "halfway", 500_000
		}
	}
	if u.random.IntN(10) == 0 {
		t = job.Tickle{Runner: r.name, Progress: -1}
	}
	if u.random.IntN(5) == 0 {
		// Longer than all other leases, and always the same: so a lost answer cannot leave a shorter lease in force.
		t.LeaseMs = 6000
	}
	answer, receipt, err := send(u, u.s.engine.Tickle, t)
	u.unexpected("tickle", err)
	u.s.log("%s tickles %v: %v, held %d, %v", r.name, t.Claim, receipt, answer.Held, err)
	if err == nil {
		u.w.account.answered(u.key, receipt, t, &answer)
	}
}

func (u *user) outcome(id job.ID) job.Outcome {
	o := job.Outcome{ID: id, Code: pick(u.random, job.OK, job.OK, job.OK, job.Fail, job.Retry, job.Error, job.Unget), DelayMs: -1}
	o.ExitCode = o.Code.DefaultExitCode()
	switch u.random.IntN(5) {
	case 0:
		o.Error = "something went wrong\nbadly"
	case 1:
		o.OutputKind, o.Output = job.Text, []byte(strings.Repeat("out\n", u.random.IntN(30)))
	case 2:
		o.DelayMs = int64(u.random.IntN(500))
	case 3:
		o.OutputAddr, o.OutputAddrKind = fmt.Sprintf("store:%d", u.random.Uint64()), job.JSON
	}
	if o.Code == job.Unget {
		o = job.Outcome{ID: id, Code: job.Unget, DelayMs: -1}
	}
	if o.Code == job.OK || o.Code == job.Fail {
		o.DelayMs = -1
	}
	return o
}

func (u *user) complete(r *runner) {
	i := u.random.IntN(len(r.held))
	h := &r.held[i]
	c := job.Complete{Claim: h.claim}
	switch {
	case h.unanswered != nil:
		c = *h.unanswered
	case u.random.IntN(2) == 0:
		o := u.outcome(job.ID{})
		c.All = &o
		for _, id := range u.some(u.some(h.jobs)) {
			c.Outcomes = append(c.Outcomes, u.outcome(id))
		}
	default:
		for _, id := range append(u.some(h.jobs), h.jobs[u.random.IntN(len(h.jobs))]) {
			c.Outcomes = append(c.Outcomes, u.outcome(id))
		}
		if n := len(c.Outcomes); n > 1 && c.Outcomes[n-1].ID == c.Outcomes[n-2].ID {
			c.Outcomes = c.Outcomes[:n-1]
		}
		seen := map[job.ID]bool{}
		for _, o := range c.Outcomes {
			if seen[o.ID] {
				c.Outcomes = c.Outcomes[:1]
				break
			}
			seen[o.ID] = true
		}
		if u.random.IntN(20) == 0 {
			c.Claim = job.ID{} // anybody may complete without a claim
		}
	}
	repeat := h.unanswered != nil
	if !repeat && !c.Claim.IsZero() && u.random.IntN(4) == 0 {
		u.setAside(&c)
	}
	if !repeat {
		u.addThen(&c)
	}
	if !repeat && u.random.IntN(2) == 0 {
		u.number(r.numbers, &c.Once)
	}
	var answer applied.Ended
	var receipt ingest.Receipt
	var next *exchange
	filled := u.w.account.isFilled(h.jobs[0])
	if !repeat && !r.stream && !c.Once.Given() && (filled || u.random.IntN(3) == 0) {
		next = &exchange{}
		if next.claim, next.wait = u.wish(r); filled { // right after the command that may have ended their batch
			next.claim.Types = []string{filledType}
		}
	}
	err := u.request(func(ctx context.Context) (err error) {
		if next != nil {
			answer, receipt, err = next.complete(ctx, u.s, c)
		} else {
			answer, receipt, err = u.s.engine.Complete(ctx, c)
		}
		return err
	})
	u.unexpected("complete", err)
	if next != nil { // only now that the answer to the completion is noted, since the claim may wait for jobs
		defer func() { u.claimNext(r, next, err) }()
	}
	u.s.log("%s completes %v, %d and all %v: %v, %v, %v", r.name, c.Claim, len(c.Outcomes), c.All != nil, receipt, answer, err)
	switch {
	case err == nil:
		h.unanswered = nil
		r.numbers.answered(&c.Once)
		u.violated(u.w.account.completed(u.key, receipt, c, answer))
		if c.All != nil && u.random.IntN(4) > 0 {
			r.held = append(r.held[:i], r.held[i+1:]...)
		}
	case !notStored(err):
		h.unanswered = &c
	case !repeat:
		r.numbers.answered(&c.Once)
	}
}

// exchange is a claim in the same request as a completion.
type exchange struct {
	claim job.Claim
	wait  time.Duration
	made  *ingest.Exchange // nil if the completion has failed
}

// complete makes the request, and returns the answer to the completion.
func (x *exchange) complete(ctx context.Context, s *server, c job.Complete) (answer applied.Ended, receipt ingest.Receipt, err error) {
	made, err := s.engine.Exchange(ctx, []job.Complete{c}, x.claim)
	if err != nil {
		return answer, receipt, err
	}
	ended, receipt, err := made.Ended(ctx)
	if err != nil {
		return answer, receipt, err
	}
	x.made = made
	return ended[0], receipt, nil
}

// claimNext waits for the claim of an exchange. lost is the reason if the answer to the completion is unknown, or nil.
func (u *user) claimNext(r *runner, x *exchange, lost error) {
	var claimed applied.Claimed
	var docs []job.Job
	var receipt ingest.Receipt
	err := lost
	if x.made != nil {
		failed := u.request(func(ctx context.Context) error {
			answer, handed, at, err := x.made.Claimed(ctx, x.wait, admitAll)
			if claimed, receipt = answer, at; err == nil {
				docs, err = documents(x.claim.Runner, &claimed, handed)
			}
			return err
		})
		if err == nil {
			err = failed
		}
	}
	u.unexpected("claim after a completion", err)
	u.s.log("%s claims after a completion: %v, %d jobs, %v", r.name, receipt, len(docs), err)
	if err != nil {
		return
	}
	u.got(r, x.claim, receipt, claimed, docs)
}

// setAside ends some jobs as the engine does when it cannot read their payloads.
func (u *user) setAside(c *job.Complete) {
	for i := range c.Outcomes {
		if u.random.IntN(3) == 0 {
			c.Outcomes[i] = job.Outcome{ID: c.Outcomes[i].ID, Code: job.Damaged, DelayMs: -1}
		}
	}
}
