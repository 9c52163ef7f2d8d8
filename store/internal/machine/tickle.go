package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// tickle extends the leases of jobs, of a claim, or of everything that a runner holds.
func (a *Applying) tickle(t job.Tickle) *applied.Tickled {
	switch {
	case len(t.IDs) > 0:
		return a.tickleJobs(&t)
	case !t.Claim.IsZero():
		return a.tickleClaim(&t)
	}
	return a.tickleRunner(&t)
}

// tickleRunner writes no row of the runner's claims: when their timer rows are due, they look at the runner.
func (a *Applying) tickleRunner(t *job.Tickle) *applied.Tickled {
	lost := a.notices(t.Runner)
	r := a.runner(t.Runner)
	if r.Held == 0 {
		return &applied.Tickled{Refusal: job.ClaimLost, Lost: lost}
	}
	r.TickledAt = a.Now.At
	r.Promise.Extend(t.LeaseMs, a.Now)
	a.Touch(&r.Dirty, r)
	return &applied.Tickled{Held: r.Held, Lost: lost}
}

func (a *Applying) tickleClaim(t *job.Tickle) *applied.Tickled {
	c := a.claimInScope(t.Claim)
	if refusal := allowsClaim(t.Claim, t.Runner, c); refusal != job.Granted {
		return &applied.Tickled{Refusal: refusal}
	}
	result := &applied.Tickled{Held: c.Held}
	if c.Held < c.Lines() {
		for _, r := range c.Runs {
			a.eachOf(r, func(p row.Part) {
				if refusal := p.In.LostTo(c.Seq); refusal != job.Granted {
					result.Lost = appendLost(result.Lost, p, refusal)
				}
			})
		}
	}
	if c.Held == 0 {
		cancelled := slices.ContainsFunc(result.Lost, func(l applied.JobResult) bool { return l.Refusal == job.WasCancelled })
		result.Refusal = job.HoldsNothing(cancelled)
		return result
	}
	a.renew(c, t.LeaseMs)
	return result
}

// tickled are the jobs of one claim that a tickle names, in the order of the tickle.
type tickled struct {
	claim *row.Claim
	jobs  []row.Position
}

func (a *Applying) tickleJobs(t *job.Tickle) *applied.Tickled {
	result, fence := &applied.Tickled{}, job.Fence{Claim: t.Claim, Runner: t.Runner}
	var claims []*tickled // in the order in which they are first named
	byClaim := map[*row.Claim]*tickled{}
	named := map[job.ID]bool{}
	for _, id := range t.IDs {
		p, ok := a.Find(id)
		refusal := job.NotFound
		if ok {
			refusal = fence.Allows(&p.In.State, a.holder(&p.In, &fence))
		}
		if refusal != job.Granted {
			result.Lost = append(result.Lost, applied.JobResult{ID: id, Refusal: refusal})
			continue
		}
		if named[id] {
			continue
		}
		named[id] = true
		c := a.claim(p.In.Claim)
		of := byClaim[c]
		if of == nil {
			of = &tickled{claim: c}
			byClaim[c] = of
			claims = append(claims, of)
		}
		of.jobs = append(of.jobs, row.Position{p.B.Seq, p.First})
		result.Held++
		if t.Step != "" || t.Progress >= 0 {
			a.setProgress(p.B, p.First, c.Seq, t)
		}
	}
	for _, of := range claims {
		a.beginRuns(of)
		if len(of.jobs) == of.claim.Held { // all jobs that it holds
			a.renew(of.claim, t.LeaseMs)
			continue
		}
		for _, at := range of.jobs {
			a.renewJob(of.claim, at, t.LeaseMs)
		}
	}
	return result
}

// beginRuns records that the runs of the jobs that a tickle names have begun.
func (a *Applying) beginRuns(of *tickled) {
	c := of.claim
	if !c.Announced {
		return
	}
	for _, at := range of.jobs {
		c.Places(row.Run{at.Seq, at.Line, at.Line}, func(_, _ uint32, place int) {
			if c.Begin(place) {
				a.touchClaim(c)
			}
		})
	}
}

// allowsClaim reports whether a request that names a claim, and perhaps a runner, may act on the whole claim. c is nil
// if no claim has that id.
func allowsClaim(id job.ID, runner string, c *row.Claim) job.Refusal {
	fence := job.Fence{Claim: id, Runner: runner}
	if c == nil {
		return fence.AllowsClaim(false, "")
	}
	return fence.AllowsClaim(true, c.Runner)
}
