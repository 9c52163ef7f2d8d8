package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// keepEnd records how the runs of lines ended that are about to be purged. The record is kept as long as a caller may
// repeat their completion.
func (a *applying) keepEnd(p part) {
	s := &p.in.State
	if !s.Status.Terminal() || !s.Code.Reported() || s.Claim == 0 || s.At+job.RepeatMs <= a.now.At {
		return
	}
	c := a.claim(s.Claim)
	e := purgedEnd{
		claim: c.seq, run: p.run(), claimAt: c.at, batchAt: p.b.at, runner: c.runner,
		status: s.Status, code: s.Code, exitCode: s.ExitCode, at: s.At,
	}
	a.o.Set(e.key(), e.encode())
	a.besideRows++
	generation := repeatsGeneration(e.at)
	if timer := timerKey(repeatsEnd(generation), repeatsTimer, uint64(generation), 0, 0); a.o.Get(timer) == nil {
		a.setTimer(timer)
	}
}

// forgetPurgedEnds deletes a generation by one range deletion, however many rows it has.
func (a *applying) forgetPurgedEnds(generation uint32) {
	prefix := generationKey(purgedEndTable, generation)
	a.o.DeleteRange(prefix, lsm.After(prefix))
}

// purgedEnds calls visit with the recorded ends of a claim's purged lines, until it returns false. In each generation
// it begins with lines that end at or after from.
func (a *applying) purgedEnds(claim job.ID, from position, visit func(e *purgedEnd) bool) {
	newest := repeatsGeneration(a.now.At)
	seqs := a.seqs(claim)
	for _, seq := range seqs.all() {
		for generation := newest - min(newest, 1); generation <= newest; generation++ {
			a.o.Scan(purgedEndKey(generation, seq, from.seq, from.line), lsm.After(purgedEndsPrefix(generation, seq)), func(key string, value []byte) bool {
				e := decodePurgedEnd(key, value)
				return e.at+job.RepeatMs <= a.now.At || e.claimID() != claim || visit(&e)
			})
		}
	}
}

// endPurged answers the outcome of a job that is purged, or never existed. It accepts the outcome if it repeats the one
// that ended the job's run under the claim.
func (a *applying) endPurged(cmd *job.Complete, o *job.Outcome) JobResult {
	result := JobResult{ID: o.ID, Refusal: job.NotFound}
	if cmd.Claim.IsZero() {
		return result
	}
	fence := job.Fence{Claim: cmd.Claim, Runner: cmd.Runner}
	seqs := a.seqs(o.ID)
	for _, seq := range seqs.all() {
		a.purgedEnds(cmd.Claim, position{seq, uint32(o.ID.Line())}, func(e *purgedEnd) bool {
			if !e.holds(o.ID) {
				return false
			}
			run := job.State{Claim: e.claim, Code: e.code, ExitCode: e.exitCode}
			result.Refusal = fence.Repeats(&run, job.Holder{Named: e.claim, Runner: e.runner}, o, job.ClaimLost)
			if result.Refusal == job.Granted {
				result.Status = e.status
			}
			return false
		})
	}
	return result
}

// endedAlike returns how many purged lines of a claim ended with the outcome that a completion gives to the whole
// claim, except lines that have a separate outcome in it.
func endedAlike(ends []purgedEnd, cmd *job.Complete) (n int) {
	batches := map[job.ID]uint64{}
	for i := range ends {
		batches[job.NewID(ends[i].batchAt, ends[i].run.Batch, 0)] = ends[i].run.Batch
	}
	var named lineSet
	for i := range cmd.Outcomes {
		id := cmd.Outcomes[i].ID
		if seq, ok := batches[id.WithLine(0)]; ok {
			named = append(named, position{seq, uint32(id.Line())})
		}
	}
	named = named.sorted()
	for i := range ends {
		if e := &ends[i]; cmd.All.Same(e.code, int(e.exitCode)) {
			n += e.run.Lines() - len(named.within(e.run))
		}
	}
	return n
}
