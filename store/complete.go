package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// complete carries out a completion, unless it repeats one.
func (a *applying) complete(cmd job.Complete) *Ended {
	if !cmd.Once.Given() {
		return a.endRuns(&cmd)
	}
	again, before := a.past().ended(&cmd)
	if again != nil {
		return again
	}
	result := a.endRuns(&cmd)
	a.rememberOnce(&cmd.Once, before.with(result.part(a.now.Seq, a.now.At)))
	return result
}

func (a *applying) endRuns(cmd *job.Complete) *Ended {
	result := &Ended{}
	c := a.claimByID(cmd.Claim) // before the exceptions, which may end the last line that names it
	for i := range cmd.Outcomes {
		result.Results = append(result.Results, a.endOne(cmd, &cmd.Outcomes[i]))
	}
	if cmd.All != nil {
		result.All, result.Refusal = a.endAll(c, cmd)
	}
	a.createChained()
	return result
}

func (a *applying) endOne(cmd *job.Complete, o *job.Outcome) JobResult {
	p, ok := a.find(o.ID)
	if !ok {
		return JobResult{ID: o.ID, Refusal: job.NotFound}
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	holder := a.holder(&p.in, &fence)
	if refusal := fence.Allows(&p.in.State, holder); refusal != job.Granted {
		if refusal = fence.Repeats(&p.in.State, holder, o, refusal); refusal == job.Granted {
			return JobResult{ID: o.ID, Status: p.in.Status}
		}
		return JobResult{ID: o.ID, Refusal: refusal}
	}
	if chainHops(p, o) > job.MaxHops {
		return JobResult{ID: o.ID, Refusal: job.TooManyHops}
	}
	return JobResult{ID: o.ID, Status: a.endReported(p, o)}
}

// endReported ends runs with the outcome that their runner reported, and adds the jobs that it creates. It returns the
// status that the jobs have now.
func (a *applying) endReported(p part, o *job.Outcome) job.Status {
	next := a.endRun(p, o)
	status := a.takeBack(p, &next)
	a.chained(p, o, status)
	return status
}

// holder returns what a fence needs to know of the claims around a job.
func (m *machine) holder(sp *span, f *job.Fence) (h job.Holder) {
	if !f.Claim.IsZero() {
		if c := m.claimByID(f.Claim); c != nil {
			h.Named = c.seq
		}
	}
	// The rules look at the runner of a run under way, and of one that the claim which the request names has ended.
	if f.Runner != "" && sp.Claim != 0 && (sp.Status == job.Active || sp.Claim == h.Named) {
		h.Runner = m.claim(sp.Claim).runner
	}
	return h
}

// endAll gives an outcome to all jobs that a claim still holds. It returns how many jobs of the claim have that outcome
// then, including those that had it before, so that a repeat gets the same answer, and without those that have an
// outcome of their own in the command.
func (a *applying) endAll(c *claim, cmd *job.Complete) (n int, refusal job.Refusal) {
	if refusal := allowsClaim(cmd.Claim, cmd.Runner, c); refusal != job.Granted {
		return 0, refusal
	}
	named := a.named(cmd.Outcomes)
	cancelled := false
	for _, r := range c.runs {
		a.eachOf(r, func(p part) {
			switch {
			case p.in.Claim != c.seq:
			case p.in.Status == job.Cancelled:
				cancelled = true
			case p.in.Status == job.Active:
				a.endReported(p, cmd.All)
				n += int(p.lines()) - named.within(p.run())
			case cmd.All.Same(p.in.Code, int(p.in.ExitCode)):
				n += int(p.lines()) - named.within(p.run())
			}
		})
	}
	if n == 0 && len(cmd.Outcomes) == 0 {
		return 0, job.HoldsNothing(cancelled)
	}
	return n, job.Granted
}

// allowsClaim says whether a request that names a claim and perhaps a runner may act on all of the claim; nil: there is
// no claim of that id.
func allowsClaim(id job.ID, runner string, c *claim) job.Refusal {
	fence := job.Fence{Claim: id, Runner: runner}
	if c == nil {
		return fence.AllowsClaim(false, "")
	}
	return fence.AllowsClaim(true, c.runner)
}

// lineSet is some lines, in order.
type lineSet []position

// named returns the lines that outcomes name.
func (m *machine) named(outcomes []job.Outcome) (named lineSet) {
	for i := range outcomes {
		if b := m.batchOf(outcomes[i].ID); b != nil {
			named = append(named, position{b.seq, uint32(outcomes[i].ID.Line())})
		}
	}
	slices.SortFunc(named, comparePositions)
	return slices.Compact(named)
}

// within returns how many of the lines are in r.
func (l lineSet) within(r Run) int {
	first, _ := slices.BinarySearchFunc(l, position{r.Batch, r.First}, comparePositions)
	end, _ := slices.BinarySearchFunc(l, position{r.Batch, r.Last + 1}, comparePositions)
	return end - first
}
