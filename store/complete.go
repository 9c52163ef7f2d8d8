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
	a.rememberOnce(&cmd.Once, before.with(recordedPart(result, a.now.Seq, a.now.At)))
	return result
}

func (a *applying) endRuns(cmd *job.Complete) *Ended {
	result := &Ended{}
	c := a.claimByID(cmd.Claim) // before the exceptions, which may end the last line that names the claim
	for i := range cmd.Outcomes {
		result.Results = append(result.Results, a.endOne(cmd, &cmd.Outcomes[i], result.Results))
	}
	if cmd.All != nil {
		result.All, result.Refusal = a.endAll(c, cmd)
	}
	a.createChained()
	return result
}

// endOne gives a job an outcome. before has the results of the earlier outcomes.
func (a *applying) endOne(cmd *job.Complete, o *job.Outcome, before []JobResult) JobResult {
	p, ok := a.find(o.ID)
	if !ok {
		return a.endPurged(cmd, o)
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	holder := a.holder(&p.in, &fence)
	run, refusal := p.in.State, fence.Allows(&p.in.State, holder)
	if refusal == job.NotActive && cmd.Unclaimed {
		run, refusal = a.runUnclaimed(p, o.ID, before)
	}
	late := false
	if refusal != job.Granted {
		if repeats := fence.Repeats(&p.in.State, holder, o, refusal); repeats == job.Granted {
			return JobResult{ID: o.ID, Status: p.in.Status}
		} else if run, refusal = a.runLate(p, &fence, holder, o, refusal); refusal != job.Granted {
			if refusal == job.ClaimLost {
				refusal = repeats
			}
			return JobResult{ID: o.ID, Refusal: refusal}
		}
		late = true
	}
	if chainHops(p, o) > job.MaxHops {
		return JobResult{ID: o.ID, Refusal: job.TooManyHops}
	}
	switch {
	case late:
		a.forgetLastAttempt(p)
	case p.in.Status != job.Active:
		a.addToOwn(p)
	}
	return JobResult{ID: o.ID, Status: a.endReported(p, run, o)}
}

// runUnclaimed returns the state of the run of a job that is not active, whose end a completion with Unclaimed reports.
// It refuses a job that waits because this command has just ended a run of it: the history of a job has one row per
// command. If the end or deletion of a batch or queue has yet to reach a job, the job counts as cancelled or deleted.
func (a *applying) runUnclaimed(p part, id job.ID, before []JobResult) (run job.State, refusal job.Refusal) {
	switch {
	case !p.in.Status.Waits() || p.in.UpdatedAt == a.now.At && endedIn(before, id):
		return run, job.NotActive
	case a.deleting(p):
		return run, job.NotFound
	case a.submissionEnded(p.b):
		return run, job.WasCancelled
	}
	return p.in.RunUnclaimed(&p.group().Attributes, a.now)
}

// runLate returns the state of the last run of a job that waits again, if the run's runner reports its end late.
func (a *applying) runLate(p part, f *job.Fence, h job.Holder, o *job.Outcome, refused job.Refusal) (run job.State, refusal job.Refusal) {
	run, refusal = f.AllowsLate(&p.in.State, h, o, refused)
	switch {
	case refusal != job.Granted:
	case a.deleting(p):
		return run, job.NotFound
	case a.submissionEnded(p.b):
		return run, job.WasCancelled
	}
	return run, refusal
}

// endedIn reports whether a run of a job has ended, by the results of a command so far.
func endedIn(results []JobResult, id job.ID) bool {
	return slices.ContainsFunc(results, func(r JobResult) bool { return r.ID == id && r.Refusal == job.Granted })
}

// addToOwn makes the completion the claim of a waiting job's run.
func (a *applying) addToOwn(p part) {
	c := a.own
	if c == nil {
		c = &claim{seq: a.now.Seq, at: a.now.At, closed: true}
		c.lease = job.Lease{Seq: a.now.Seq, At: a.now.At, Ms: p.group().LeaseMs}
		a.own = c
		a.claims.Set(c.seq, c)
	}
	if last := len(c.runs) - 1; last >= 0 && c.runs[last].Batch == p.b.seq && c.runs[last].Last+1 == p.first {
		c.runs[last].Last = p.last
		return
	}
	c.runs = append(c.runs, p.run())
}

// openOwn writes the row of the claim of the jobs that a completion has ended without a claim. The claim holds no jobs,
// so it belongs to no runner. If no line names it any more, no row is written.
func (a *applying) openOwn() {
	if c := a.own; c != nil && c.refs > 0 {
		a.o.Set(seqKey(claimTable, c.seq), c.encode())
	}
	a.own = nil
}

// endReported ends runs, whose state is run, with the outcome that their runner reported, and adds the jobs that the
// outcome creates. It returns the new status of the jobs.
func (a *applying) endReported(p part, run job.State, o *job.Outcome) job.Status {
	next := a.endRun(p, run, o)
	status := a.takeBack(p, &next)
	a.chained(p, o, status)
	return status
}

// holder returns the facts about the claims around a job that a fence needs.
func (m *machine) holder(sp *span, f *job.Fence) (h job.Holder) {
	if !f.Claim.IsZero() {
		if c := m.claimByID(f.Claim); c != nil {
			h.Named = c.seq
		}
	}
	// The rules need the runner of an outstanding run, or of a run that ended under the claim that the request names.
	if f.Runner != "" && sp.Claim != 0 && (sp.Status == job.Active || sp.Claim == h.Named) {
		h.Runner = m.claim(sp.Claim).runner
	}
	return h
}

// endAll gives an outcome to all jobs that a claim still holds. It returns how many jobs of the claim have that outcome
// then. This includes jobs that had it before, so that a repeat gets the same answer. It excludes jobs that have a
// separate outcome in the command.
func (a *applying) endAll(c *claim, cmd *job.Complete) (n int, refusal job.Refusal) {
	known, runner := c != nil, ""
	var handedOut []Run
	if known {
		runner, handedOut = c.runner, c.runs
	}
	if !known || c.refs < c.lines() { // lines may be purged
		var ends []purgedEnd
		a.purgedEnds(cmd.Claim, position{}, func(e *purgedEnd) bool { ends = append(ends, *e); return true })
		if len(ends) > 0 {
			known, runner, n = true, ends[0].runner, endedAlike(ends, cmd)
		}
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	if refusal := fence.AllowsClaim(known, runner); refusal != job.Granted {
		return 0, refusal
	}
	named := a.named(cmd.Outcomes)
	cancelled := false
	for _, r := range handedOut {
		named.without(r, func(r Run) {
			a.eachOf(r, func(p part) {
				switch {
				case p.in.Claim != c.seq:
				case p.in.Status == job.Cancelled:
					cancelled = true
				case p.in.Status == job.Active:
					a.endReported(p, p.in.State, cmd.All)
					n += int(p.lines())
				case a.endLate(p, cmd), cmd.All.Same(p.in.Code, int(p.in.ExitCode)):
					n += int(p.lines())
				}
			})
		})
	}
	if n == 0 && len(cmd.Outcomes) == 0 {
		return 0, job.HoldsNothing(cancelled)
	}
	return n, job.Granted
}

// endLate gives the outcome of a whole claim to lines that wait again, if their last run was under this claim. It
// returns false if the outcome does not apply to them.
func (a *applying) endLate(p part, cmd *job.Complete) bool {
	run, ok := p.in.RunLate()
	if !ok || !cmd.All.Code.Reported() || a.deleting(p) || a.submissionEnded(p.b) {
		return false
	}
	a.forgetLastAttempt(p)
	a.endReported(p, run, cmd.All)
	return true
}

// named returns the lines that outcomes name.
func (m *machine) named(outcomes []job.Outcome) (named lineSet) {
	for i := range outcomes {
		if b := m.batchOf(outcomes[i].ID); b != nil {
			named = append(named, position{b.seq, uint32(outcomes[i].ID.Line())})
		}
	}
	return named.sorted()
}
