package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// sweep applies an operation to the jobs of a batch or queue, a bounded number at a time, since there may be millions in as many states.
// Its first step is taken by the command that asks for it, the rest by ticks, between other commands.
type sweep struct {
	seq uint64
	at  int64
	op  job.Op
	// The batch or queue that it goes through, and in which status; 0: any that op takes.
	batch    job.ID
	batchSeq uint64
	queue    uint32
	name     queueName // of the queue, which may be gone by now
	status   job.Status
	// Where it goes on. Through a queue it goes status by status, as job.Op lists them.
	turn           int
	nextBatch      uint64
	nextLine       uint32
	moved, skipped int64
	finishedAt     int64
}

func (w *sweep) encode() []byte {
	e := make(encoder, 0, 64)
	e.int(w.at)
	e.uint(uint64(w.op))
	e.bytes(w.batch[:])
	e.uint(w.batchSeq)
	e.uint(uint64(w.queue))
	e.text(w.name.client)
	e.text(w.name.typ)
	e.uint(uint64(w.status))
	e.uint(uint64(w.turn))
	e.uint(w.nextBatch)
	e.uint(uint64(w.nextLine))
	e.int(w.moved)
	e.int(w.skipped)
	e.int(w.finishedAt)
	return e
}

func decodeSweep(seq uint64, value []byte) *sweep {
	d := decoder(value)
	return &sweep{
		seq: seq, at: d.int(), op: job.Op(d.uint()), batch: decodeID(&d), batchSeq: d.uint(), queue: uint32(d.uint()), name: queueName{d.text(), d.text()}, status: job.Status(d.uint()), turn: int(d.uint()),
		nextBatch: d.uint(), nextLine: uint32(d.uint()), moved: d.int(), skipped: d.int(), finishedAt: d.int(),
	}
}

// statuses lists what the sweep goes through.
func (w *sweep) statuses() []job.Status {
	if w.status != 0 {
		return []job.Status{w.status}
	}
	return w.op.Takes()
}

// startSweep takes the first step of a sweep, and keeps the rest for ticks.
func (s *Store) startSweep(m job.Move) *Swept {
	w := &sweep{seq: s.seq, at: s.now, op: m.Op, status: m.Status}
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
	s.o.set(seqKey(sweepTable, w.seq), w.encode())
	s.setTimer(timerKey(s.now, sweepTimer, w.seq, 0, 0))
	return &Swept{Sweep: job.NewID(w.at, w.seq, 0), Moved: w.moved, Skipped: w.skipped}
}

// sweepOn takes another step of a sweep, or forgets it when it ended long ago, and returns about how many rows that wrote. The timer of
// a sweep that goes on moves to the end of what is due, so that leases and retention come in between.
func (s *Store) sweepOn(seq uint64, rows int) int {
	s.dropTimer(s.timers.first(&s.o)) // it is what brought us here
	at := slices.IndexFunc(s.running, func(w *sweep) bool { return w.seq == seq })
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
		w.finishedAt = s.now
		return
	}
	next := w.nextLine
	sp := s.spanAt(b.seq, next)
	w.nextLine = sp.last + 1
	if slices.Contains(w.statuses(), sp.status) {
		s.sweepLines(w, b, sp, max(sp.first, next), sp.last)
	}
	*end--
}

// sweepChunk is how many spans of a queue are looked up at once.
const sweepChunk = 64

// stepQueue looks at the spans of a queue that are in a status, in the order of their ids. A job that moves on meanwhile moves to a status
// that is still to come, or comes back and is met by overtaken.
func (s *Store) stepQueue(w *sweep, end *int) {
	statuses := w.statuses()
	if w.turn == len(statuses) {
		w.finishedAt = s.now
		return
	}
	status := statuses[w.turn]
	var found []place
	s.o.scan(listKey(w.queue, status, w.nextBatch, w.nextLine), listKey(w.queue, status, w.seq, 0), func(key string, _ []byte) bool {
		found = append(found, place{u64At(key, 6), u32At(key, 14)})
		return len(found) < sweepChunk
	})
	s.prefetch(found)
	for _, at := range found {
		if s.o.writes >= *end {
			return
		}
		w.nextBatch, w.nextLine = at.seq, at.last+1
		if sp := s.spanEnding(at.seq, at.last); sp.status == status {
			s.sweepLines(w, s.batch(at.seq), sp, sp.first, sp.last)
		}
		*end--
	}
	if *end--; len(found) < sweepChunk {
		w.turn, w.nextBatch, w.nextLine = w.turn+1, 0, 0
	}
}

// place is where a span ends.
type place struct {
	seq  uint64
	last uint32
}

// prefetch reads spans, their batches and their claims into the caches, in their order, which takes a tenth of the time that reading each alone does.
func (s *Store) prefetch(places []place) {
	var batches, counts, spans []string
	seen := uint64(0)
	for _, p := range places {
		if s.batches.get(p.seq) == nil && p.seq != seen {
			seen = p.seq
			batches, counts = append(batches, seqKey(batchTable, p.seq)), append(counts, seqKey(countsTable, p.seq))
		}
		if _, ok := s.spans.get(cachedSpan{seq: p.seq, span: span{last: p.last}}); !ok {
			spans = append(spans, lineKey(spanTable, p.seq, p.last))
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
		if sp, ok := s.spans.get(cachedSpan{seq: p.seq, span: span{last: p.last}}); ok && sp.claim != 0 && s.claims.get(sp.claim) == nil {
			seqs = append(seqs, sp.claim)
		}
	}
	slices.Sort(seqs)
	var claims, leases []string
	for _, seq := range slices.Compact(seqs) {
		claims, leases = append(claims, seqKey(claimTable, seq)), append(leases, seqKey(leaseTable, seq))
	}
	found := map[uint64]*claim{}
	s.o.getAll(claims, func(key string, value []byte) { found[seqOfKey(key)] = decodeClaim(seqOfKey(key), value) })
	s.o.getAll(leases, func(key string, value []byte) {
		if c := found[seqOfKey(key)]; c != nil {
			c.lease = decodeLease(value)
			c.closed = c.held == 0
			s.claims.set(c.seq, c)
		}
	})
}

// thorough reports whether the sweep is to take every job that was there when it was asked for, whatever becomes of it meanwhile. One
// that is not leaves alone what has moved since.
func (w *sweep) thorough() bool { return w.status == 0 && w.op != job.Redrive }

// covers reports whether a line was there when the sweep was asked for.
func (w *sweep) covers(b *batch, line uint32) bool {
	if w.batch.IsZero() {
		return b.group(line).queue == w.queue && b.seq < w.seq
	}
	return b.seq == w.batchSeq
}

// doomed reports whether a delete of everything is still to take a line.
func (s *Store) doomed(b *batch, line uint32) bool {
	return slices.ContainsFunc(s.running, func(w *sweep) bool { return w.op == job.Delete && w.thorough() && w.covers(b, line) })
}

// outdone reports whether a redrive is to leave a line alone because everything is to be deleted, or because cancelling everything was
// asked for later. Else the line would come to wait behind the back of the other sweep, and stay.
func (s *Store) outdone(w *sweep, b *batch, line uint32) bool {
	return slices.ContainsFunc(s.running, func(other *sweep) bool {
		return other.thorough() && other.covers(b, line) && (other.op == job.Delete || other.seq > w.seq)
	})
}

// sweepLines applies the operation to lines of sp, which are in a status that the sweep takes.
func (s *Store) sweepLines(w *sweep, b *batch, sp span, first, last uint32) {
	if !w.thorough() && sp.updatedAt > w.at || w.op == job.Redrive && s.outdone(w, b, first) {
		return
	}
	n := int64(last-first) + 1
	switch w.op {
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

// overtaken sweeps lines that came back, from a run or by a patch, while a thorough sweep of their queue is under way: it may have passed
// them. It reports the status that they have now.
func (s *Store) overtaken(b *batch, first, last uint32, status job.Status) job.Status {
	if len(s.running) == 0 || !status.Waits() {
		return status
	}
	for _, w := range s.running {
		if w.batch.IsZero() && w.thorough() && w.covers(b, first) {
			s.each(b.seq, first, last, func(sp span, first, last uint32) {
				s.sweepLines(w, b, sp, first, last)
			})
			s.o.set(seqKey(sweepTable, w.seq), w.encode())
			return job.Cancelled // or gone
		}
	}
	return status
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
		seqs = append(seqs, w.seq)
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

func (w *sweep) document() Sweep {
	return Sweep{
		ID: w.id(), Op: w.op, Batch: w.batch, Client: w.name.client, Type: w.name.typ, Status: w.status, Moved: w.moved, Skipped: w.skipped, CreatedAt: w.at, FinishedAt: w.finishedAt,
	}
}
