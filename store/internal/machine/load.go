package machine

import (
	"fmt"

	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// Load reads the rows that are kept in memory, such as the meta row and the queues, and publishes them.
func (m *Machine) Load(journal string, queueMemory int64) (err error) {
	defer lsm.Catch(&err)
	m.Meta = row.Meta{Version: row.FormatVersion, Journal: journal, NextQueue: 1}
	if value := m.O.Get(row.MetaKey); value != nil {
		m.Meta = row.DecodeMeta(value)
	}
	if err := m.Meta.Known(); err != nil {
		return err
	}
	if m.Meta.Journal == "" {
		m.Meta.Journal = journal
	}
	if journal != "" && m.Meta.Journal != journal {
		return fmt.Errorf("open store: it was made from journal %s, not %s: %w", m.Meta.Journal, journal, row.ErrForeignJournal)
	}
	m.Reseed()
	m.followLevel()
	m.PublishEpochs()
	if err := m.loadQueues(queueMemory); err != nil {
		return err
	}
	m.loadDistinct()
	m.loadEffects()
	m.loadDocuments()
	m.loadStatusCounts()
	m.O.Scan(string(row.SweepTable), string(row.SweepTable+1), func(key string, value []byte) bool {
		if w := row.DecodeSweep(row.SeqOfKey(key), value); w.FinishedAt == 0 {
			m.Running = append(m.Running, w)
		}
		return true
	})
	of := &m.Windows.Windows
	m.timers = lsm.StoredWindow(of, string(row.TimerTable), string(row.TimerTable+1))
	m.idle.Unused = lsm.StoredWindow(of, row.IdlePrefix(false), row.IdlePrefix(true))
	m.idle.Used = lsm.StoredWindow(of, row.IdlePrefix(true), string(row.IdleTable+1))
	m.purgedBatches = lsm.StoredWindow(of, string(row.PurgedBatchTable), string(row.PurgedBatchTable+1))
	m.Publish() // it reads the first timer
	return nil
}

// loadQueues reads all queues. It fails if they take more memory than allowed (0: any), so the memory of the queues is
// bounded.
func (m *Machine) loadQueues(allowed int64) error {
	var all []*memory.Queue
	use := document.QueueUse{}
	m.O.Scan(string(row.QueueTable), string(row.QueueTable+1), func(key string, value []byte) bool {
		use.Queues++
		use.Bytes += memory.DecodeQueueHead(value).Bytes()
		if allowed == 0 || use.Bytes <= allowed {
			all = append(all, memory.DecodeQueue(lsm.U32At(key, 1), value))
		}
		return true
	})
	if len(all) < use.Queues {
		return &memory.QueuesError{use, allowed}
	}
	for _, q := range all {
		for status, n := range q.Counts {
			m.Counts[status] += n
		}
	}
	m.AllQueues.Fill(all)
	return nil
}
