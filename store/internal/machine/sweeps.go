package machine

import (
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/row"
)

// startSweep takes the first step of a sweep, and leaves the later steps to ticks.
func (a *Applying) startSweep(m job.Move) *applied.Swept {
	w := &row.Sweep{Sweep: job.Sweep{Op: m.Op, Status: m.Status, Now: a.Now}, Owner: strings.Clone(a.By.Owner())}
	if !m.Batch.IsZero() {
		s := a.submissionInScope(m.Batch)
		if s != nil {
			if m.Status == 0 && m.Op != job.Redrive {
				return a.endByRequest(s, m.Op)
			}
			if m.Op == job.Redrive && s.Status.Ended() {
				return &applied.Swept{Refusal: job.BatchEnded}
			}
			w.Batch, w.BatchSeq, w.OfParts = m.Batch, s.Seq, true
		} else {
			b := a.batchInScope(m.Batch)
			if b == nil {
				return &applied.Swept{Refusal: job.BatchNotFound}
			}
			w.Batch, w.BatchSeq = m.Batch, b.Seq
		}
	} else {
		q := a.AllQueues.ByName[row.QueueName{m.Client, m.Type}]
		if q == nil {
			return &applied.Swept{Refusal: job.QueueNotFound}
		}
		w.QueueID, w.Name = q.Id, q.QueueName
	}
	if len(a.Running) >= job.MaxSweeps {
		return &applied.Swept{Refusal: job.TooManySweeps}
	}
	if a.step(w, a.Rules.CommandRows); w.FinishedAt != 0 {
		return &applied.Swept{Moved: w.Moved, Skipped: w.Skipped}
	}
	a.Running = append(a.Running, w)
	a.O.Set(row.SeqKey(row.SweepTable, w.Seq), w.Encode())
	a.SetTimer(row.TimerKey(a.Now.At, row.SweepTimer, w.Seq, 0, 0))
	return &applied.Swept{Sweep: w.Id(), Moved: w.Moved, Skipped: w.Skipped}
}

// resumeSweep takes the next step of the sweep whose timer is first, or deletes its row if it ended long ago. It
// returns about how many rows that wrote. It moves the timer of a running sweep after everything that is due, so that
// leases and retention are handled in between.
func (a *Applying) resumeSweep(seq uint64, rows int) int {
	a.DeleteTimer(a.timers.First(&a.O))
	at := slices.IndexFunc(a.Running, func(w *row.Sweep) bool { return w.Seq == seq })
	if at < 0 {
		a.O.Delete(row.SeqKey(row.SweepTable, seq))
		return row.TickSpanRows
	}
	w, before := a.Running[at], a.O.Writes()
	a.step(w, rows)
	next := a.Due
	if w.FinishedAt != 0 {
		a.Running = slices.Delete(a.Running, at, at+1)
		next = w.FinishedAt + job.SweepLifeMs
	}
	a.SetTimer(row.TimerKey(next, row.SweepTimer, seq, 0, 0))
	a.O.Set(row.SeqKey(row.SweepTable, seq), w.Encode())
	return a.O.Writes() - before + row.TickSpanRows
}

// step continues a sweep until it has written or looked at rows rows, or has ended.
func (a *Applying) step(w *row.Sweep, rows int) {
	for end := a.O.Writes() + rows; w.FinishedAt == 0 && a.O.Writes() < end; {
		if w.Batch.IsZero() {
			a.stepQueue(w, &end)
		} else {
			a.stepBatch(w, &end)
		}
	}
}

// stepBatch looks at the next span of a batch. A line that the sweep has passed returns to a status that the sweep
// takes only by a later request.
func (a *Applying) stepBatch(w *row.Sweep, end *int) {
	if w.OfParts {
		of, ok := row.ReadPart(&a.O, w.BatchSeq, int64(w.NextBatch))
		if !ok || of.Seq > w.Seq {
			w.FinishedAt = a.Now.At
			return
		}
		first := uint32(max(int64(w.NextBatch), of.Base) - of.Base)
		sp := a.spanAt(of.Seq, first)
		w.NextBatch = uint64(of.Base) + uint64(sp.Last) + 1
		*end -= a.sweepPart(w, a.part(a.Batch(of.Seq), sp, first, sp.Last))
		return
	}
	b := a.Batch(w.BatchSeq)
	if b == nil || w.NextLine >= b.Lines {
		w.FinishedAt = a.Now.At
		return
	}
	sp := a.spanAt(b.Seq, w.NextLine)
	p := a.part(b, sp, max(sp.First, w.NextLine), sp.Last)
	w.NextLine = sp.Last + 1
	*end -= a.sweepPart(w, p)
}

// SweepChunk is how many spans of a queue are looked up together.
const SweepChunk = 64

// stepQueue looks at the next spans of a queue that are in a status, in the order of their ids. If a job changes its
// status during the sweep, the sweep has yet to reach the new status, or takeBack finds the job.
func (a *Applying) stepQueue(w *row.Sweep, end *int) {
	statuses := w.Takes()
	if w.Turn == len(statuses) {
		w.FinishedAt = a.Now.At
		return
	}
	status := statuses[w.Turn]
	var found []row.Position
	a.O.Scan(row.ListKey(w.QueueID, status, w.NextBatch, w.NextLine), row.ListKey(w.QueueID, status, w.Seq, 0), func(key string, _ []byte) bool {
		found = append(found, row.EndOfListKey(key))
		return len(found) < SweepChunk
	})
	a.prefetch(found)
	for _, at := range found {
		if a.O.Writes() >= *end {
			return
		}
		w.NextBatch, w.NextLine = at.Seq, at.Line+1
		looks := 1
		if sp := a.spanEnding(at); sp.Status == status {
			looks = a.sweepPart(w, a.whole(a.Batch(at.Seq), sp))
		}
		*end -= looks
	}
	if *end--; len(found) < SweepChunk {
		w.Turn, w.NextBatch, w.NextLine = w.Turn+1, 0, 0
	}
}

// deleting reports whether a running sweep deletes the whole batch or queue of a part. Its lines then count as deleted.
func (a *Applying) deleting(p row.Part) bool {
	if s := a.submissionOf(p.B); s != nil && s.Deleting {
		return true
	}
	return slices.ContainsFunc(a.Running, func(w *row.Sweep) bool { return w.Deletes() && w.Covers(p) })
}

// sweepPart applies the operation of a sweep to lines that it takes, and returns how many rows it looked at.
func (a *Applying) sweepPart(w *row.Sweep, p row.Part) (looks int) {
	before := a.BesideRows
	a.sweeping = w.Seq
	defer func() { looks, a.sweeping = 1+a.BesideRows-before, 0 }()
	var others []*job.Sweep
	for _, other := range a.Running {
		if w.Op == job.Redrive && other.Covers(p) {
			others = append(others, &other.Sweep)
		}
	}
	if !w.Moves(&p.In.State, others) || w.Op == job.Redrive && a.submissionEnded(p.B) {
		return looks
	}
	n := p.Lines()
	switch w.Op {
	case job.Cancel:
		a.cancel(p)
	case job.Redrive:
		skipped := a.redrive(p)
		w.Skipped += skipped
		n -= skipped
	case job.Delete:
		a.purge(p, job.ReasonDeleted)
	}
	w.Moved += n
	return looks
}

// takeBack applies a sweep of the queue to lines that returned to a waiting state, after a run or a patch, because the
// sweep may have passed them. It returns their new status. Sweeps of a batch do not need it: they pass each line once,
// whatever its status.
func (a *Applying) takeBack(p row.Part, now *job.State) job.Status {
	if p.B.Submission != 0 && now.Status.Waits() && a.submissionEnded(p.B) {
		a.Each(p.B, p.First, p.Last, func(p row.Part) { a.endPart(p) })
		return job.Cancelled // or deleted
	}
	for _, w := range a.Running {
		if w.Batch.IsZero() && w.TakesBack(now) && w.Covers(p) {
			a.Each(p.B, p.First, p.Last, func(p row.Part) { a.sweepPart(w, p) })
			a.O.Set(row.SeqKey(row.SweepTable, w.Seq), w.Encode())
			return job.Cancelled // or deleted
		}
	}
	return now.Status
}
