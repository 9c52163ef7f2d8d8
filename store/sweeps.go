package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// startSweep takes the first step of a sweep, and leaves the later steps to ticks.
func (a *applying) startSweep(m job.Move) *Swept {
	w := &sweep{Sweep: job.Sweep{Op: m.Op, Status: m.Status, Now: a.now}}
	if !m.Batch.IsZero() {
		s := a.submissionByID(m.Batch)
		if s != nil {
			if m.Status == 0 && m.Op != job.Redrive {
				return a.endByRequest(s, m.Op)
			}
			if m.Op == job.Redrive && s.status.Ended() {
				return &Swept{Refusal: job.BatchEnded}
			}
			w.batch, w.batchSeq, w.ofParts = m.Batch, s.seq, true
		} else {
			b := a.batchOf(m.Batch)
			if b == nil || !b.isBatch(m.Batch) {
				return &Swept{Refusal: job.BatchNotFound}
			}
			w.batch, w.batchSeq = m.Batch, b.seq
		}
	} else {
		q := a.queues.byName[queueName{m.Client, m.Type}]
		if q == nil {
			return &Swept{Refusal: job.QueueNotFound}
		}
		w.queueID, w.name = q.id, q.queueName
	}
	if len(a.running) >= job.MaxSweeps {
		return &Swept{Refusal: job.TooManySweeps}
	}
	if a.step(w, a.rules.commandRows); w.finishedAt != 0 {
		return &Swept{Moved: w.moved, Skipped: w.skipped}
	}
	a.running = append(a.running, w)
	a.o.Set(seqKey(sweepTable, w.Seq), w.encode())
	a.setTimer(timerKey(a.now.At, sweepTimer, w.Seq, 0, 0))
	return &Swept{Sweep: w.id(), Moved: w.moved, Skipped: w.skipped}
}

// resumeSweep takes the next step of the sweep whose timer is first, or deletes its row if it ended long ago. It
// returns about how many rows that wrote. It moves the timer of a running sweep after everything that is due, so that
// leases and retention are handled in between.
func (a *applying) resumeSweep(seq uint64, rows int) int {
	a.deleteTimer(a.timers.First(&a.o))
	at := slices.IndexFunc(a.running, func(w *sweep) bool { return w.Seq == seq })
	if at < 0 {
		a.o.Delete(seqKey(sweepTable, seq))
		return tickSpanRows
	}
	w, before := a.running[at], a.o.Writes()
	a.step(w, rows)
	next := a.due
	if w.finishedAt != 0 {
		a.running = slices.Delete(a.running, at, at+1)
		next = w.finishedAt + job.SweepLifeMs
	}
	a.setTimer(timerKey(next, sweepTimer, seq, 0, 0))
	a.o.Set(seqKey(sweepTable, seq), w.encode())
	return a.o.Writes() - before + tickSpanRows
}

// step continues a sweep until it has written or looked at rows rows, or has ended.
func (a *applying) step(w *sweep, rows int) {
	for end := a.o.Writes() + rows; w.finishedAt == 0 && a.o.Writes() < end; {
		if w.batch.IsZero() {
			a.stepQueue(w, &end)
		} else {
			a.stepBatch(w, &end)
		}
	}
}

// stepBatch looks at the next span of a batch. A line that the sweep has passed returns to a status that the sweep
// takes only by a later request.
func (a *applying) stepBatch(w *sweep, end *int) {
	if w.ofParts {
		of, ok := readPart(&a.o, w.batchSeq, int64(w.nextBatch))
		if !ok || of.seq > w.Seq {
			w.finishedAt = a.now.At
			return
		}
		first := uint32(max(int64(w.nextBatch), of.base) - of.base)
		sp := a.spanAt(of.seq, first)
		w.nextBatch = uint64(of.base) + uint64(sp.last) + 1
		*end -= a.sweepPart(w, a.part(a.batch(of.seq), sp, first, sp.last))
		return
	}
	b := a.batch(w.batchSeq)
	if b == nil || w.nextLine >= b.lines {
		w.finishedAt = a.now.At
		return
	}
	sp := a.spanAt(b.seq, w.nextLine)
	p := a.part(b, sp, max(sp.first, w.nextLine), sp.last)
	w.nextLine = sp.last + 1
	*end -= a.sweepPart(w, p)
}

// sweepChunk is how many spans of a queue are looked up together.
const sweepChunk = 64

// stepQueue looks at the next spans of a queue that are in a status, in the order of their ids. If a job changes its
// status during the sweep, the sweep has yet to reach the new status, or takeBack finds the job.
func (a *applying) stepQueue(w *sweep, end *int) {
	statuses := w.Takes()
	if w.turn == len(statuses) {
		w.finishedAt = a.now.At
		return
	}
	status := statuses[w.turn]
	var found []position
	a.o.Scan(listKey(w.queueID, status, w.nextBatch, w.nextLine), listKey(w.queueID, status, w.Seq, 0), func(key string, _ []byte) bool {
		found = append(found, endOfListKey(key))
		return len(found) < sweepChunk
	})
	a.prefetch(found)
	for _, at := range found {
		if a.o.Writes() >= *end {
			return
		}
		w.nextBatch, w.nextLine = at.seq, at.line+1
		looks := 1
		if sp := a.spanEnding(at); sp.Status == status {
			looks = a.sweepPart(w, a.whole(a.batch(at.seq), sp))
		}
		*end -= looks
	}
	if *end--; len(found) < sweepChunk {
		w.turn, w.nextBatch, w.nextLine = w.turn+1, 0, 0
	}
}

// deleting reports whether a running sweep deletes the whole batch or queue of a part. Its lines then count as deleted.
func (a *applying) deleting(p part) bool {
	if s := a.submissionOf(p.b); s != nil && s.deleting {
		return true
	}
	return slices.ContainsFunc(a.running, func(w *sweep) bool { return w.Deletes() && w.covers(p) })
}

// sweepPart applies the operation of a sweep to lines that it takes, and returns how many rows it looked at.
func (a *applying) sweepPart(w *sweep, p part) (looks int) {
	before := a.besideRows
	defer func() { looks = 1 + a.besideRows - before }()
	var others []*job.Sweep
	for _, other := range a.running {
		if w.Op == job.Redrive && other.covers(p) {
			others = append(others, &other.Sweep)
		}
	}
	if !w.Moves(&p.in.State, others) || w.Op == job.Redrive && a.submissionEnded(p.b) {
		return looks
	}
	n := p.lines()
	switch w.Op {
	case job.Cancel:
		a.cancel(p)
	case job.Redrive:
		skipped := a.redrive(p)
		w.skipped += skipped
		n -= skipped
	case job.Delete:
		a.purge(p, reasonDeleted)
	}
	w.moved += n
	return looks
}

// takeBack applies a sweep of the queue to lines that returned to a waiting state, after a run or a patch, because the
// sweep may have passed them. It returns their new status. Sweeps of a batch do not need it: they pass each line once,
// whatever its status.
func (a *applying) takeBack(p part, now *job.State) job.Status {
	if p.b.submission != 0 && now.Status.Waits() && a.submissionEnded(p.b) {
		a.each(p.b, p.first, p.last, func(p part) { a.endPart(p) })
		return job.Cancelled // or deleted
	}
	for _, w := range a.running {
		if w.batch.IsZero() && w.TakesBack(now) && w.covers(p) {
			a.each(p.b, p.first, p.last, func(p part) { a.sweepPart(w, p) })
			a.o.Set(seqKey(sweepTable, w.Seq), w.encode())
			return job.Cancelled // or deleted
		}
	}
	return now.Status
}
