package machine

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// keepEnd records how the runs of lines ended that are about to be purged. The record is kept as long as a caller may
// repeat their completion.
func (a *Applying) keepEnd(p row.Part) {
	s := &p.In.State
	if !s.Status.Terminal() || !s.Code.Reported() || s.Claim == 0 || s.At+job.RepeatMs <= a.Now.At {
		return
	}
	c := a.claim(s.Claim)
	e := row.PurgedEnd{
		Claim: c.Seq, Run: p.Run(), ClaimAt: c.At, BatchAt: p.B.At, Queue: p.Group().QueueID, Runner: c.Runner,
		Status: s.Status, Code: s.Code, ExitCode: s.ExitCode, At: s.At,
	}
	a.O.Set(e.Key(), e.Encode())
	a.BesideRows++
	generation := row.RepeatsGeneration(e.At)
	if timer := row.TimerKey(row.RepeatsEnd(generation), row.RepeatsTimer, uint64(generation), 0, 0); a.O.Get(timer) == nil {
		a.SetTimer(timer)
	}
}

// forgetPurgedEnds deletes a generation by one range deletion, however many rows it has.
func (a *Applying) forgetPurgedEnds(generation uint32) {
	prefix := row.GenerationKey(row.PurgedEndTable, generation)
	a.O.DeleteRange(prefix, lsm.After(prefix))
}

// purgedEnds calls visit with the recorded ends of a claim's purged lines, until it returns false. In each generation
// it begins with lines that end at or after from. It leaves out lines outside of the scope.
func (a *Applying) purgedEnds(claim job.ID, from row.Position, visit func(e *row.PurgedEnd) bool) {
	newest := row.RepeatsGeneration(a.Now.At)
	seqs := a.Seqs(claim)
	for _, seq := range seqs.All() {
		for generation := newest - min(newest, 1); generation <= newest; generation++ {
			a.O.Scan(row.PurgedEndKey(generation, seq, from.Seq, from.Line), lsm.After(row.PurgedEndsPrefix(generation, seq)), func(key string, value []byte) bool {
				e := row.DecodePurgedEnd(key, value)
				return e.At+job.RepeatMs <= a.Now.At || e.ClaimID() != claim || !a.sees(e.Queue) || visit(&e)
			})
		}
	}
}

// endPurged answers the outcome of a job that is purged, or never existed. It accepts the outcome if it repeats the one
// that ended the job's run under the claim.
func (a *Applying) endPurged(cmd *job.Complete, o *job.Outcome) applied.JobResult {
	result := applied.JobResult{ID: o.ID, Refusal: job.NotFound}
	if cmd.Claim.IsZero() {
		return result
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	seqs := a.Seqs(o.ID)
	for _, seq := range seqs.All() {
		a.purgedEnds(cmd.Claim, row.Position{seq, uint32(o.ID.Line())}, func(e *row.PurgedEnd) bool {
			if !e.Holds(o.ID) {
				return false
			}
			run := job.State{Claim: e.Claim, Code: e.Code, ExitCode: e.ExitCode}
			result.Refusal = fence.Repeats(&run, job.Holder{Named: e.Claim, Runner: e.Runner}, o, job.ClaimLost)
			if result.Refusal == job.Granted {
				result.Status = e.Status
			}
			return false
		})
	}
	return result
}

// endedAlike returns how many purged lines of a claim ended with the outcome that a completion gives to the whole
// claim, except lines that have a separate outcome in it.
func endedAlike(ends []row.PurgedEnd, cmd *job.Complete) (n int) {
	batches := map[job.ID]uint64{}
	for i := range ends {
		batches[job.NewID(ends[i].BatchAt, ends[i].Run.Batch, 0)] = ends[i].Run.Batch
	}
	var named row.LineSet
	for i := range cmd.Outcomes {
		id := cmd.Outcomes[i].ID
		if seq, ok := batches[id.WithLine(0)]; ok {
			named = append(named, row.Position{seq, uint32(id.Line())})
		}
	}
	named = named.Sorted()
	for i := range ends {
		if e := &ends[i]; cmd.All.Same(e.Code, int(e.ExitCode)) {
			n += e.Run.Lines() - len(named.Within(e.Run))
		}
	}
	return n
}
