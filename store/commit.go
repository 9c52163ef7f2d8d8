package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Commit makes the applied commands visible to queries, in one Pebble batch with the cursor. They are durable once
// Pebble has flushed; until then the journal keeps them. While Pebble cannot write to its disk, Commit may block,
// without a time limit. Queries continue during that time, because Commit does not hold live.mu.
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

// flushDirty writes the rows of changed objects, and the meta row.
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

// publish updates the in-memory state that queries read, after a commit.
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

// shrunkQueues is how many queues lose their windows in one commit.
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
	if n < shrunkQueues { // that was the last queue
		m.timers.Shrink(m.bounds.minWindow)
		m.setTimerGap(nil)
		m.idle.unused.Shrink(m.bounds.minWindow)
		m.idle.used.Shrink(m.bounds.minWindow)
		m.purgedBatches.Shrink(m.bounds.minWindow)
		m.windows.shrunk = queueName{}
	}
}

// ObserveRunEnds makes Apply collect the ends of runs from now on, for TakeRunEnds. Only the applying goroutine may
// call it.
func (s *Store) ObserveRunEnds() { s.machine.runs.observed = true }

// TakeRunEnds returns the ends of runs that were applied since it was last called, in their order. It returns none
// without ObserveRunEnds. If a sweep changes a job's end in the same command, the end has the outcome of the run, and
// the status before the sweep. Only the applying goroutine may call TakeRunEnds. The list is valid until the next
// command.
func (s *Store) TakeRunEnds() []job.RunEnd { return s.machine.runs.take() }

// ObserveBatchEnds makes Apply collect the ends of batches with attributes from now on, for TakeBatchEnds. Only the
// applying goroutine may call it.
func (s *Store) ObserveBatchEnds() { s.machine.batchEnds.observed = true }

// TakeBatchEnds returns the ends of batches that were applied since it was last called. Only the applying goroutine may
// call it.
func (s *Store) TakeBatchEnds() []job.BatchEnd { return s.machine.batchEnds.take() }

// ObserveQueues makes Apply count the events of the jobs of queues from now, unix ms, for QueueFigures: separately for
// up to limit queues, and together for all other queues. If it is called again, the counts begin again at 0. Only the
// applying goroutine may call it, after a commit.
func (s *Store) ObserveQueues(limit int, now int64) {
	m := s.machine
	m.tally.observe(limit, max(now, m.meta.at), m.queues.byID, m.counts)
}

// TakeSilent returns the runners whose leases have ended without a tickle since it was last called. Only the applying
// goroutine may call it.
func (s *Store) TakeSilent() []string {
	runners := s.machine.silentRunners
	s.machine.silentRunners = nil
	return runners
}

// TakeReadied returns the queues that gained pending jobs, or were resumed, since it was last called. all is set if
// the switch was set to start since then: all ready queues are meant, and because there may be very many,
// ReadyQueues lists them. Only the applying goroutine may call TakeReadied.
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
