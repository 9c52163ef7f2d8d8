package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// tickle extends the leases of jobs, of a claim, or of everything that a runner holds.
func (a *applying) tickle(t job.Tickle) *Tickled {
	switch {
	case len(t.IDs) > 0:
		return a.tickleJobs(&t)
	case !t.Claim.IsZero():
		return a.tickleClaim(&t)
	}
	return a.tickleRunner(&t)
}

// tickleRunner writes no row of the runner's claims: when their timer rows are due, they look at the runner.
func (a *applying) tickleRunner(t *job.Tickle) *Tickled {
	lost := a.notices(t.Runner)
	r := a.runner(t.Runner)
	if r.held == 0 {
		return &Tickled{Refusal: job.ClaimLost, Lost: lost}
	}
	r.tickledAt = a.now.At
	r.promise.Extend(t.LeaseMs, a.now)
	a.touch(&r.dirty, r)
	return &Tickled{Held: r.held, Lost: lost}
}

func (a *applying) tickleClaim(t *job.Tickle) *Tickled {
	c := a.claimByID(t.Claim)
	if refusal := allowsClaim(t.Claim, t.Runner, c); refusal != job.Granted {
		return &Tickled{Refusal: refusal}
	}
	result := &Tickled{Held: c.held}
	if c.held < c.lines() {
		for _, r := range c.runs {
			a.eachOf(r, func(p part) {
				if refusal := p.in.LostTo(c.seq); refusal != job.Granted {
					result.Lost = appendLost(result.Lost, p, refusal)
				}
			})
		}
	}
	if c.held == 0 {
		cancelled := slices.ContainsFunc(result.Lost, func(l JobResult) bool { return l.Refusal == job.WasCancelled })
		result.Refusal = job.HoldsNothing(cancelled)
		return result
	}
	a.renew(c, t.LeaseMs)
	return result
}

// tickled are the jobs of one claim that a tickle names, in the order of the tickle.
type tickled struct {
	claim *claim
	jobs  []position
}

func (a *applying) tickleJobs(t *job.Tickle) *Tickled {
	result, fence := &Tickled{}, job.Fence{Claim: t.Claim, Runner: t.Runner}
	var claims []*tickled // in the order in which they are first named
	byClaim := map[*claim]*tickled{}
	named := map[job.ID]bool{}
	for _, id := range t.IDs {
		p, ok := a.find(id)
		refusal := job.NotFound
		if ok {
			refusal = fence.Allows(&p.in.State, a.holder(&p.in, &fence))
		}
		if refusal != job.Granted {
			result.Lost = append(result.Lost, JobResult{ID: id, Refusal: refusal})
			continue
		}
		if named[id] {
			continue
		}
		named[id] = true
		c := a.claim(p.in.Claim)
		of := byClaim[c]
		if of == nil {
			of = &tickled{claim: c}
			byClaim[c] = of
			claims = append(claims, of)
		}
		of.jobs = append(of.jobs, position{p.b.seq, p.first})
		result.Held++
		if t.Step != "" || t.Progress >= 0 {
			a.setProgress(p.b, p.first, c.seq, t)
		}
	}
	for _, of := range claims {
		a.beginRuns(of)
		if len(of.jobs) == of.claim.held { // all jobs that it holds
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
func (a *applying) beginRuns(of *tickled) {
	c := of.claim
	if !c.announced {
		return
	}
	for _, at := range of.jobs {
		c.places(Run{at.seq, at.line, at.line}, func(_, _ uint32, place int) {
			if c.begin(place) {
				a.touchClaim(c)
			}
		})
	}
}

// allowsClaim reports whether a request that names a claim, and perhaps a runner, may act on the whole claim. c is nil
// if no claim has that id.
func allowsClaim(id job.ID, runner string, c *claim) job.Refusal {
	fence := job.Fence{Claim: id, Runner: runner}
	if c == nil {
		return fence.AllowsClaim(false, "")
	}
	return fence.AllowsClaim(true, c.runner)
}
