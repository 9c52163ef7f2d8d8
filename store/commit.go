package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Commit makes what was applied visible to queries, in one Pebble batch with the cursor. It is durable once Pebble has
// flushed; until then the journal keeps it. Pebble holds a commit back, without a limit of time, while it cannot write
// to its disk. Queries continue meanwhile, because live.mu is not held.
func (s *Store) Commit() (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.broken != nil || !s.pending {
		return s.broken
	}
	defer func() { s.broken = err }()
	defer lsm.Catch(&err)
	m := s.machine
	m.flushDirty()
	if err := s.db.Commit(&m.o); err != nil {
		return err
	}
	s.pending = false
	m.caches.trim(m.bounds)
	if m.windows.Full() {
		m.shrinkWindows()
	}
	m.publish()
	return nil
}

func (q *queue) flush(o *lsm.Overlay) {
	q.dirty = false
	if q.gone {
		o.Delete(queueKey(q.id))
	} else {
		o.Set(queueKey(q.id), q.encode())
	}
}

func (b *batch) flush(o *lsm.Overlay) {
	b.dirty = false
	if !b.gone {
		o.Set(seqKey(countsTable, b.seq), b.batchCounts.encode())
	}
}

func (c *claim) flush(o *lsm.Overlay) {
	c.dirty = false
	if c.refs > 0 && c.changed {
		o.Set(seqKey(claimStateTable, c.seq), c.claimState.row())
	}
}

// flushDirty writes the rows of objects that changed, and the meta row.
func (m *machine) flushDirty() {
	for _, x := range m.unwritten.rows {
		x.flush(&m.o)
		if q, ok := x.(*queue); ok {
			m.unwritten.changed = append(m.unwritten.changed, q)
		}
	}
	clear(m.unwritten.rows)
	m.unwritten.rows = m.unwritten.rows[:0]
	m.flushCells()
	m.flushEffects()
	m.o.Set(metaKey, m.meta.encode())
}

// publish shows queries what the commit wrote of the things that they look up in memory.
func (m *machine) publish() {
	m.mu.Lock()
	for _, q := range m.unwritten.changed {
		if len(m.unshown) < maxUnshown {
			m.unshown = append(m.unshown, q.shown)
		}
		q.shown = nil
	}
	m.mu.Unlock()
	if m.tally.observed {
		m.tally.committed(m.unwritten.changed, m.counts, m.meta.at)
	}
	clear(m.unwritten.changed)
	m.unwritten.changed = m.unwritten.changed[:0]
	m.publishHandlers()
	m.applied.Store(m.meta.cursor)
	due := int64(0)
	if key := m.timers.First(&m.o); key != "" {
		due = splitTimer(key).at
	}
	m.nextDue.Store(due)
	idle := int64(0)
	if q := m.queues.idle.oldest(); q != nil {
		idle = q.idleAt
	}
	m.idleSince.Store(idle)
	keys, keyBytes := m.meta.numKeys()
	m.totals.Store(&Totals{Counts: m.counts, Batches: m.batchStatuses, QueueUse: m.queueUse(), Level: m.meta.level,
		Keys: keys, KeyBytes: keyBytes, Sessions: m.meta.sessions, SessionBytes: m.meta.sessionBytes, Sweeps: len(m.running), Stopped: m.meta.stopped})
	m.ends.committed()
}

// shrunkQueues is how many queues a commit drops the windows of.
const shrunkQueues = 1000

// shrinkWindows drops the windows of some queues. The next commit continues after them.
func (m *machine) shrinkWindows() {
	n := 0
	m.queues.byClient.ascend(&queueName{m.windows.shrunk.client, m.windows.shrunk.typ + "\x00"}, func(q *queue) bool {
		for l := q.lanes; l != nil; l = l.next {
			l.drop()
		}
		m.windows.shrunk = q.queueName
		n++
		return n < shrunkQueues
	})
	if n < shrunkQueues { // that was the last one
		m.timers.Shrink(m.bounds.minWindow)
		m.setTimerGap(nil)
		m.idle.unused.Shrink(m.bounds.minWindow)
		m.idle.used.Shrink(m.bounds.minWindow)
		m.purgedBatches.Shrink(m.bounds.minWindow)
		m.windows.shrunk = queueName{}
	}
}

// ObserveRunEnds has Apply collect the ends of runs from now on, for TakeRunEnds. Only the applying goroutine may call
// it.
func (s *Store) ObserveRunEnds() { s.machine.runs.observed = true }

// TakeRunEnds returns the ends of runs that were applied since it was last called, in their order; none without
// ObserveRunEnds. A job whose end a sweep changes in the same command has the outcome of its run, and the status before
// the sweep. Only the applying goroutine may call it. The list is valid until the next command.
func (s *Store) TakeRunEnds() []job.RunEnd { return s.machine.runs.take() }

// ObserveBatchEnds has Apply collect the ends of batches with attributes from now on, for TakeBatchEnds, which returns
// those that were applied since it was last called. Only the applying goroutine may call them.
func (s *Store) ObserveBatchEnds() { s.machine.batchEnds.observed = true }

// TakeBatchEnds returns what ObserveBatchEnds says.
func (s *Store) TakeBatchEnds() []job.BatchEnd { return s.machine.batchEnds.take() }

// ObserveQueues has Apply count what happens to the jobs of queues from now, unix ms, for QueueFigures: for up to limit queues
// by themselves, and for all others together. Called again, it begins again at 0. Only the applying goroutine may call it,
// after a commit.
func (s *Store) ObserveQueues(limit int, now int64) {
	m := s.machine
	m.tally.observe(limit, max(now, m.meta.at), m.queues.byID, m.counts)
}

// TakeSilent returns the runners of which leases have ended without a tickle since it was last called. Only the applying
// goroutine may call it.
func (s *Store) TakeSilent() []string {
	runners := s.machine.silentRunners
	s.machine.silentRunners = nil
	return runners
}

// TakeReadied returns the queues that gained pending jobs, or were resumed, since it was last called. Only the applying
// goroutine may call it. all is set if the switch was set to start meanwhile: then all ready queues are meant, of which
// there may be very many, and ReadyQueues lists them.
func (s *Store) TakeReadied() (names []Readied, all bool) {
	m := s.machine
	for _, q := range m.readied {
		if !q.paused && !m.meta.stopped && q.counts[job.Pending] > 0 {
			names = append(names, Readied{q.client, q.typ, q.counts[job.Pending]})
		}
		q.readied = false
	}
	m.readied = m.readied[:0]
	all, m.allReadied = m.allReadied, false
	return names, all
}
