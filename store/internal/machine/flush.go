package machine

import (
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// FlushDirty writes the rows of changed objects, and the meta row.
func (m *Machine) FlushDirty() {
	for _, x := range m.unwritten.rows {
		x.Flush(&m.O)
		if q, ok := x.(*memory.Queue); ok {
			m.unwritten.changed = append(m.unwritten.changed, q)
		}
	}
	clear(m.unwritten.rows)
	m.unwritten.rows = m.unwritten.rows[:0]
	m.flushCells()
	m.flushEffects()
	m.O.Set(row.MetaKey, m.Meta.Encode())
}

// Publish updates the in-memory state that queries read, after a commit.
func (m *Machine) Publish() {
	m.Mu.Lock()
	for _, q := range m.unwritten.changed {
		if len(m.unshown) < maxUnshown {
			m.unshown = append(m.unshown, q.Shown)
		}
		q.Shown = nil
	}
	m.Mu.Unlock()
	if m.Tally.Observed {
		m.Tally.Committed(m.unwritten.changed, m.Counts, m.Meta.At)
	}
	clear(m.unwritten.changed)
	m.unwritten.changed = m.unwritten.changed[:0]
	m.publishDocuments()
	due := int64(0)
	if key := m.timers.First(&m.O); key != "" {
		due = row.SplitTimer(key).At
	}
	m.LastNextDue.Store(due)
	idle := int64(0)
	if q := m.AllQueues.Idle.Oldest(); q != nil {
		idle = q.IdleAt
	}
	m.LastIdleSince.Store(idle)
	keys, keyBytes := m.Meta.NumKeys()
	m.LastTotals.Store(&document.Totals{Counts: m.Counts, Batches: m.BatchStatuses, QueueUse: m.QueueUse(), Level: m.Meta.Level,
		Keys: keys, KeyBytes: keyBytes, Sessions: m.Meta.Sessions, SessionBytes: m.Meta.SessionBytes, Sweeps: len(m.Running), Stopped: m.Meta.Stopped,
		History: m.historyUse()})
	m.LastApplied.Store(m.Meta.Cursor) // after all that a reader expects from it
	m.Ends.Committed()
}

// ShrunkQueues is how many queues lose their windows in one commit.
const ShrunkQueues = 1000

// ShrinkWindows drops the windows of some queues. The next commit continues after them.
func (m *Machine) ShrinkWindows() {
	n := 0
	m.AllQueues.ByClient.Ascend(&row.QueueName{m.Windows.Shrunk.Client, m.Windows.Shrunk.Typ + "\x00"}, func(q *memory.Queue) bool {
		for l := q.Lanes; l != nil; l = l.Next {
			l.Drop()
		}
		m.Windows.Shrunk = q.QueueName
		n++
		return n < ShrunkQueues
	})
	if n < ShrunkQueues { // that was the last queue
		m.timers.Shrink(m.Bounds.MinWindow)
		m.setTimerGap(nil)
		m.idle.Unused.Shrink(m.Bounds.MinWindow)
		m.idle.Used.Shrink(m.Bounds.MinWindow)
		m.purgedBatches.Shrink(m.Bounds.MinWindow)
		m.Windows.Shrunk = row.QueueName{}
	}
}
