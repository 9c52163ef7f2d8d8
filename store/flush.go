package store

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
