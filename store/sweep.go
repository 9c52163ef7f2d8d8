package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// startSweep takes the first step of a sweep, and keeps the rest for ticks.
func (s *Store) startSweep(m job.Move) *Swept {
	w := &sweep{Sweep: job.Sweep{Op: m.Op, Status: m.Status, Now: s.now}}
	if !m.Batch.IsZero() {
		b := s.batchOf(m.Batch)
		if b == nil || b.id() != m.Batch {
			return &Swept{Refusal: job.BatchNotFound}
		}
		w.batch, w.batchSeq = m.Batch, b.seq
	} else {
		q := s.queues.byName[queueName{m.Client, m.Type}]
		if q == nil {
			return &Swept{Refusal: job.QueueNotFound}
		}
		w.queue, w.name = q.id, queueName{q.client, q.typ}
	}
	if len(s.running) >= job.MaxSweeps {
		return &Swept{Refusal: job.TooManySweeps}
	}
	if s.step(w, s.rules.commandRows); w.finishedAt != 0 {
		return &Swept{Moved: w.moved, Skipped: w.skipped}
	}
	s.running = append(s.running, w)
	s.o.set(seqKey(sweepTable, w.Seq), w.encode())
	s.setTimer(timerKey(s.now.At, sweepTimer, w.Seq, 0, 0))
	return &Swept{Sweep: job.NewID(w.At, w.Seq, 0), Moved: w.moved, Skipped: w.skipped}
}

// sweepOn takes another step of a sweep, or forgets it when it ended long ago, and returns about how many rows that wrote. The timer of
// a sweep that goes on moves to the end of what is due, so that leases and retention come in between.
func (s *Store) sweepOn(seq uint64, rows int) int {
	s.dropTimer(s.timers.first(&s.o)) // it is what brought us here
	at := slices.IndexFunc(s.running, func(w *sweep) bool { return w.Seq == seq })
	if at < 0 {
		s.o.del(seqKey(sweepTable, seq))
		return tickSpanRows
	}
	w, before := s.running[at], s.o.writes
	s.step(w, rows)
	next := s.due
	if w.finishedAt != 0 {
		s.running = slices.Delete(s.running, at, at+1)
		next = w.finishedAt + job.SweepLifeMs
	}
	s.setTimer(timerKey(next, sweepTimer, seq, 0, 0))
	s.o.set(seqKey(sweepTable, seq), w.encode())
	return s.o.writes - before + tickSpanRows
}

// step goes on with a sweep until it has written so many rows, or looked at as many, or is done.
func (s *Store) step(w *sweep, rows int) {
	for end := s.o.writes + rows; w.finishedAt == 0 && s.o.writes < end; {
		if w.batch.IsZero() {
			s.stepQueue(w, &end)
		} else {
			s.stepBatch(w, &end)
		}
	}
}

// stepBatch looks at the spans of a batch, line by line: none that it has passed can come back into a status that it takes, but by
// somebody's request.
func (s *Store) stepBatch(w *sweep, end *int) {
	b := s.batch(w.batchSeq)
	if b == nil || w.nextLine >= b.lines {
		w.finishedAt = s.now.At
		return
	}
	next := w.nextLine
	sp := s.spanAt(b.seq, next)
	w.nextLine = sp.last + 1
	s.sweepLines(w, b, sp, max(sp.first, next), sp.last)
	*end--
}

// sweepChunk is how many spans of a queue are looked up at once.
const sweepChunk = 64

// stepQueue looks at the spans of a queue that are in a status, in the order of their ids. A job that moves on meanwhile moves to a status
// that is still to come, or comes back and is met by overtaken.
func (s *Store) stepQueue(w *sweep, end *int) {
	statuses := w.Takes()
	if w.turn == len(statuses) {
		w.finishedAt = s.now.At
		return
	}
	status := statuses[w.turn]
	var found []position
	s.o.scan(listKey(w.queue, status, w.nextBatch, w.nextLine), listKey(w.queue, status, w.Seq, 0), func(key string, _ []byte) bool {
		found = append(found, position{u64At(key, 6), u32At(key, 14)})
		return len(found) < sweepChunk
	})
	s.prefetch(found)
	for _, at := range found {
		if s.o.writes >= *end {
			return
		}
		w.nextBatch, w.nextLine = at.seq, at.line+1
		if sp := s.spanEnding(at.seq, at.line); sp.Status == status {
			s.sweepLines(w, s.batch(at.seq), sp, sp.first, sp.last)
		}
		*end--
	}
	if *end--; len(found) < sweepChunk {
		w.turn, w.nextBatch, w.nextLine = w.turn+1, 0, 0
	}
}

// prefetch reads spans, their batches and their claims into the caches, in their order, which takes a tenth of the time that reading each alone does.
func (s *Store) prefetch(places []position) {
	var batches, counts, spans []string
	seen := uint64(0)
	for _, p := range places {
		if s.batches.get(p.seq) == nil && p.seq != seen {
			seen = p.seq
			batches, counts = append(batches, seqKey(batchTable, p.seq)), append(counts, seqKey(countsTable, p.seq))
		}
		if _, ok := s.spans.get(cachedSpan{seq: p.seq, span: span{last: p.line}}); !ok {
			spans = append(spans, lineKey(spanTable, p.seq, p.line))
		}
	}
	s.o.getAll(batches, func(key string, value []byte) {
		b := decodeBatch(seqOfKey(key), value)
		s.batches.set(b.seq, b)
	})
	s.o.getAll(counts, func(key string, value []byte) {
		if b := s.batches.get(seqOfKey(key)); b != nil {
			b.batchCounts = decodeBatchCounts(value)
		}
	})
	s.o.getAll(spans, func(key string, value []byte) {
		s.spans.set(cachedSpan{seqOfKey(key), decodeSpan(lineOfKey(key), value)})
	})
	var seqs []uint64
	for _, p := range places {
		if sp, ok := s.spans.get(cachedSpan{seq: p.seq, span: span{last: p.line}}); ok && sp.Claim != 0 && s.claims.get(sp.Claim) == nil {
			seqs = append(seqs, sp.Claim)
		}
	}
	slices.Sort(seqs)
	var claims, leases []string
	for _, seq := range slices.Compact(seqs) {
		claims, leases = append(claims, seqKey(claimTable, seq)), append(leases, seqKey(claimStateTable, seq))
	}
	found := map[uint64]*claim{}
	s.o.getAll(claims, func(key string, value []byte) { found[seqOfKey(key)] = decodeClaim(seqOfKey(key), value) })
	s.o.getAll(leases, func(key string, value []byte) {
		if c := found[seqOfKey(key)]; c != nil {
			c.claimState = decodeClaimState(value)
			c.closed = c.held == 0
			s.claims.set(c.seq, c)
		}
	})
}

// deleting reports whether a sweep under way deletes everything around a line: the line is as good as deleted.
func (s *Store) deleting(b *batch, line uint32) bool {
	return slices.ContainsFunc(s.running, func(w *sweep) bool { return w.Deletes() && w.covers(b, line) })
}

// sweepLines applies the operation to lines of sp as far as the sweep moves them.
func (s *Store) sweepLines(w *sweep, b *batch, sp span, first, last uint32) {
	var others []*job.Sweep
	for _, other := range s.running {
		if w.Op == job.Redrive && other.covers(b, first) {
			others = append(others, &other.Sweep)
		}
	}
	if !w.Moves(&sp.State, others) {
		return
	}
	n := int64(last-first) + 1
	switch w.Op {
	case job.Cancel:
		s.cancel(b, sp, first, last)
	case job.Redrive:
		skipped := s.redrive(b, first, last)
		w.skipped += skipped
		n -= skipped
	case job.Delete:
		s.delete(b, sp, first, last)
	}
	w.moved += n
}

// takeBack applies a sweep of the queue to lines that returned to a waiting state, from a run or by a patch: the sweep may have passed them.
// It returns the status that the lines have then. Sweeps of a batch need no such step: they pass each line once, whatever its status.
func (s *Store) takeBack(b *batch, first, last uint32, now *job.State) job.Status {
	for _, w := range s.running {
		if w.batch.IsZero() && w.TakesBack(now) && w.covers(b, first) {
			s.each(b.seq, first, last, func(sp span, first, last uint32) {
				s.sweepLines(w, b, sp, first, last)
			})
			s.o.set(seqKey(sweepTable, w.Seq), w.encode())
			return job.Cancelled // or deleted
		}
	}
	return now.Status
}

// Sweep returns the document of a sweep; job.SweepNotFound when there is none.
func (s *Store) Sweep(id job.ID) (doc Sweep, err error) {
	defer catch(&err)
	v := s.view()
	defer v.close()
	seqs := s.seqs(id)
	for _, seq := range seqs.all() {
		if value := v.get(seqKey(sweepTable, seq)); value != nil {
			if w := decodeSweep(seq, value); w.id() == id {
				return w.document(), nil
			}
		}
	}
	return Sweep{}, job.SweepNotFound
}

// Sweeps returns the documents of all sweeps that are under way, and of the newest of those that ended lately, job.MaxPage in all, oldest first.
func (s *Store) Sweeps() (docs []Sweep, err error) {
	defer catch(&err)
	s.mu.RLock()
	var seqs []uint64 // of those under way, which may be older than many that have ended
	for _, w := range s.running {
		seqs = append(seqs, w.Seq)
	}
	s.mu.RUnlock()
	v := s.view()
	defer v.close()
	prefix := string(sweepTable)
	room := job.MaxPage - len(seqs)
	for ok := v.it.SeekLT([]byte(after(prefix))); ok && room > 0; ok = v.it.Prev() {
		key := string(v.it.Key())
		if key < prefix {
			break
		}
		if seq := seqOfKey(key); !slices.Contains(seqs, seq) {
			seqs = append(seqs, seq)
			room--
		}
	}
	fail("scan", v.it.Error())
	slices.Sort(seqs)
	for _, seq := range seqs {
		if value := v.get(seqKey(sweepTable, seq)); value != nil { // of one that has just begun there is no row yet
			docs = append(docs, decodeSweep(seq, value).document())
		}
	}
	return docs, nil
}
