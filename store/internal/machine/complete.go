package machine

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// complete carries out a completion, unless it repeats one.
func (a *Applying) complete(cmd job.Complete) *applied.Ended {
	if !cmd.Once.Given() {
		return a.endRuns(&cmd)
	}
	again, before := a.past().Ended(&cmd)
	if again != nil {
		return again
	}
	result := a.endRuns(&cmd)
	a.rememberOnce(&cmd.Once, before.With(recordedPart(result, a.Now.Seq, a.Now.At)))
	return result
}

func (a *Applying) endRuns(cmd *job.Complete) *applied.Ended {
	result := &applied.Ended{}
	c := a.claimInScope(cmd.Claim) // before the exceptions, which may end the last line that names the claim
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
func (a *Applying) endOne(cmd *job.Complete, o *job.Outcome, before []applied.JobResult) applied.JobResult {
	p, ok := a.Find(o.ID)
	if !ok {
		return a.endPurged(cmd, o)
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	holder := a.holder(&p.In, &fence)
	run, refusal := p.In.State, fence.Allows(&p.In.State, holder)
	if refusal == job.NotActive && cmd.Unclaimed {
		run, refusal = a.runUnclaimed(p, o.ID, before)
	}
	late := false
	if refusal != job.Granted {
		if repeats := fence.Repeats(&p.In.State, holder, o, refusal); repeats == job.Granted {
			return applied.JobResult{ID: o.ID, Status: p.In.Status}
		} else if run, refusal = a.runLate(p, &fence, holder, o, refusal); refusal != job.Granted {
			if refusal == job.ClaimLost {
				refusal = repeats
			}
			return applied.JobResult{ID: o.ID, Refusal: refusal}
		}
		late = true
	}
	if chainHops(p, o) > job.MaxHops {
		return applied.JobResult{ID: o.ID, Refusal: job.TooManyHops}
	}
	switch {
	case late:
		a.forgetLastAttempt(p)
	case p.In.Status != job.Active:
		a.addToOwn(p)
	}
	return applied.JobResult{ID: o.ID, Status: a.endReported(p, run, o)}
}

// runUnclaimed returns the state of the run of a job that is not active, whose end a completion with Unclaimed reports.
// It refuses a job that waits because this command has just ended a run of it: the history of a job has one row per
// command. If the end or deletion of a batch or queue has yet to reach a job, the job counts as cancelled or deleted.
func (a *Applying) runUnclaimed(p row.Part, id job.ID, before []applied.JobResult) (run job.State, refusal job.Refusal) {
	switch {
	case !p.In.Status.Waits() || p.In.UpdatedAt == a.Now.At && endedIn(before, id):
		return run, job.NotActive
	case a.deleting(p):
		return run, job.NotFound
	case a.submissionEnded(p.B):
		return run, job.WasCancelled
	}
	return p.In.RunUnclaimed(&p.Group().Attributes, a.Now)
}

// runLate returns the state of the last run of a job that waits again, if the run's runner reports its end late.
func (a *Applying) runLate(p row.Part, f *job.Fence, h job.Holder, o *job.Outcome, refused job.Refusal) (run job.State, refusal job.Refusal) {
	run, refusal = f.AllowsLate(&p.In.State, h, o, refused)
	switch {
	case refusal != job.Granted:
	case a.deleting(p):
		return run, job.NotFound
	case a.submissionEnded(p.B):
		return run, job.WasCancelled
	}
	return run, refusal
}

// endedIn reports whether a run of a job has ended, by the results of a command so far.
func endedIn(results []applied.JobResult, id job.ID) bool {
	return slices.ContainsFunc(results, func(r applied.JobResult) bool { return r.ID == id && r.Refusal == job.Granted })
}

// addToOwn makes the completion the claim of a waiting job's run.
func (a *Applying) addToOwn(p row.Part) {
	c := a.own
	if c == nil {
		c = &row.Claim{Seq: a.Now.Seq, At: a.Now.At, Closed: true}
		c.Lease = job.Lease{Seq: a.Now.Seq, At: a.Now.At, Ms: p.Group().LeaseMs}
		a.own = c
		a.Claims.Set(c.Seq, c)
	}
	if last := len(c.Runs) - 1; last >= 0 && c.Runs[last].Batch == p.B.Seq && c.Runs[last].Last+1 == p.First {
		c.Runs[last].Last = p.Last
		return
	}
	c.Runs = append(c.Runs, p.Run())
}

// openOwn writes the row of the claim of the jobs that a completion has ended without a claim. The claim holds no jobs,
// so it belongs to no runner. If no line names it any more, no row is written.
func (a *Applying) openOwn() {
	if c := a.own; c != nil && c.Refs > 0 {
		a.O.Set(row.SeqKey(row.ClaimTable, c.Seq), c.Encode())
	}
	a.own = nil
}

// endReported ends runs, whose state is run, with the outcome that their runner reported, and adds the jobs that the
// outcome creates. It returns the new status of the jobs.
func (a *Applying) endReported(p row.Part, run job.State, o *job.Outcome) job.Status {
	next := a.endRun(p, run, o)
	status := a.takeBack(p, &next)
	a.chained(p, o, status)
	return status
}

// holder returns the facts about the claims around a job that a fence needs.
func (m *Machine) holder(sp *row.Span, f *job.Fence) (h job.Holder) {
	if !f.Claim.IsZero() {
		if c := m.claimByID(f.Claim); c != nil {
			h.Named = c.Seq
		}
	}
	// The rules need the runner of an outstanding run, or of a run that ended under the claim that the request names.
	if f.Runner != "" && sp.Claim != 0 && (sp.Status == job.Active || sp.Claim == h.Named) {
		h.Runner = m.claim(sp.Claim).Runner
	}
	return h
}

// endAll gives an outcome to all jobs that a claim still holds. It returns how many jobs of the claim have that outcome
// then. This includes jobs that had it before, so that a repeat gets the same answer. It excludes jobs that have a
// separate outcome in the command.
func (a *Applying) endAll(c *row.Claim, cmd *job.Complete) (n int, refusal job.Refusal) {
	known, runner := c != nil, ""
	var handedOut []row.Run
	if known {
		runner, handedOut = c.Runner, c.Runs
	}
	if !known || c.Refs < c.Lines() { // lines may be purged
		var ends []row.PurgedEnd
		a.purgedEnds(cmd.Claim, row.Position{}, func(e *row.PurgedEnd) bool { ends = append(ends, *e); return true })
		if len(ends) > 0 {
			known, runner, n = true, ends[0].Runner, endedAlike(ends, cmd)
		}
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	if refusal := fence.AllowsClaim(known, runner); refusal != job.Granted {
		return 0, refusal
	}
	named := a.named(cmd.Outcomes)
	cancelled := false
	for _, r := range handedOut {
		named.Without(r, func(r row.Run) {
			a.eachOf(r, func(p row.Part) {
				switch {
				case p.In.Claim != c.Seq:
				case p.In.Status == job.Cancelled:
					cancelled = true
				case p.In.Status == job.Active:
					a.endReported(p, p.In.State, cmd.All)
					n += int(p.Lines())
				case a.endLate(p, cmd), cmd.All.Same(p.In.Code, int(p.In.ExitCode)):
					n += int(p.Lines())
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
func (a *Applying) endLate(p row.Part, cmd *job.Complete) bool {
	run, ok := p.In.RunLate()
	if !ok || !cmd.All.Code.Reported() || a.deleting(p) || a.submissionEnded(p.B) {
		return false
	}
	a.forgetLastAttempt(p)
	a.endReported(p, run, cmd.All)
	return true
}

// named returns the lines that outcomes name.
func (m *Machine) named(outcomes []job.Outcome) (named row.LineSet) {
	for i := range outcomes {
		if b := m.batchOf(outcomes[i].ID); b != nil {
			named = append(named, row.Position{b.Seq, uint32(outcomes[i].ID.Line())})
		}
	}
	return named.Sorted()
}
