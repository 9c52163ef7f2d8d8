package store

import (
	"github.com/cockroachdb/pebble/v2"
)

// Commit makes what was applied visible to queries, in one Pebble batch with the cursor. It is durable once Pebble flushes;
// until then the journal is what keeps it.
//
// Pebble holds a commit back, without an end, while it cannot write to its disk. Queries go on meanwhile: mu is not held.
func (s *Store) Commit() (err error) {
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.db == nil {
		return ErrClosed
	}
	if s.broken != nil || !s.pending {
		return s.broken
	}
	defer func() { s.broken = err }()
	defer catch(&err)
	s.flushDirty()
	if err := s.o.flush(s.outgoing); err != nil {
		return &Error{"build commit", err}
	}
	if err := s.db.Apply(s.outgoing, pebble.NoSync); err != nil {
		return &Error{"commit", err}
	}
	s.outgoing.Reset()
	s.pending = false
	s.trimCaches()
	s.publish()
	return nil
}

// dirtyRow is an object whose row the next commit writes, or deletes when the object is gone.
type dirtyRow interface {
	flush(o *overlay)
}

func (q *queue) flush(o *overlay) {
	q.dirty = false
	if q.gone {
		o.del(queueKey(q.id))
	} else {
		o.set(queueKey(q.id), q.encode())
	}
}

func (b *batch) flush(o *overlay) {
	b.dirty = false
	if !b.gone {
		o.set(seqKey(countsTable, b.seq), b.batchCounts.encode())
	}
}

func (c *claim) flush(o *overlay) {
	c.dirty = false
	if c.refs > 0 {
		o.set(seqKey(claimStateTable, c.seq), c.claimState.encode())
	}
}

// touch has the row of x written at the next commit. mark is x's own note that it is listed already.
func (s *Store) touch(mark *bool, x dirtyRow) {
	if !*mark {
		*mark = true
		s.dirty = append(s.dirty, x)
	}
}

func (s *Store) flushDirty() {
	for _, x := range s.dirty {
		x.flush(&s.o)
		if q, ok := x.(*queue); ok {
			s.changed = append(s.changed, q)
		}
	}
	clear(s.dirty)
	s.dirty = s.dirty[:0]
	s.flushCells()
	s.o.set(metaKey, s.meta.encode())
}

// publish shows queries what the commit wrote of the things that they look up in memory.
func (s *Store) publish() {
	s.mu.Lock()
	for _, q := range s.changed {
		q.show()
	}
	s.mu.Unlock()
	clear(s.changed)
	s.changed = s.changed[:0]
	s.applied.Store(s.meta.cursor)
	due := int64(0)
	if key := s.timers.first(&s.o); key != "" {
		due, _, _, _, _ = splitTimerKey(key)
	}
	s.nextDue.Store(due)
	idle := int64(0)
	if q := s.queues.idle.oldest(); q != nil {
		idle = q.idleAt
	}
	s.idleSince.Store(idle)
	s.totals.Store(&Totals{Counts: s.counts, Queues: len(s.queues.byID), Level: s.meta.level,
		Keys: s.meta.numKeys(), Sessions: s.meta.sessions, Sweeps: len(s.running), Stopped: s.meta.stopped})
}

func (s *Store) trimCaches() {
	s.spans.trim(s.bounds.cachedSpans)
	s.batches.trim(s.bounds.cachedBatches)
	s.claims.trim(s.bounds.cachedClaims)
	s.runners.trim(s.bounds.cachedClaims)
	s.cells.trim(s.bounds.cachedClaims)
	s.sessions.trim(s.bounds.cachedClaims)
	s.trimSlots()
	s.hints.trim(s.bounds.cachedClaims)
	if s.windows.keys > s.windows.limit {
		s.shrinkWindows()
	}
}
