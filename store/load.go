package store

import (
	"fmt"

	"github.com/daybookq/daybook/store/lsm"
)

// load reads the rows that are kept in memory, such as the meta row and the queues, and publishes them.
func (m *machine) load(journal string, queueMemory int64) (err error) {
	defer lsm.Catch(&err)
	m.meta = meta{version: formatVersion, journal: journal, nextQueue: 1}
	if value := m.o.Get(metaKey); value != nil {
		m.meta = decodeMeta(value)
	}
	if err := m.meta.known(); err != nil {
		return err
	}
	if m.meta.journal == "" {
		m.meta.journal = journal
	}
	if journal != "" && m.meta.journal != journal {
		return fmt.Errorf("open store: it was made from journal %s, not %s: %w", m.meta.journal, journal, ErrForeignJournal)
	}
	m.reseed()
	m.followLevel()
	m.publishEpochs()
	if err := m.loadQueues(queueMemory); err != nil {
		return err
	}
	m.loadDistinct()
	m.loadEffects()
	m.loadHandlers()
	m.loadFilesets()
	m.loadStatusCounts()
	m.o.Scan(string(sweepTable), string(sweepTable+1), func(key string, value []byte) bool {
		if w := decodeSweep(seqOfKey(key), value); w.finishedAt == 0 {
			m.running = append(m.running, w)
		}
		return true
	})
	of := &m.windows.Windows
	m.timers = lsm.StoredWindow(of, string(timerTable), string(timerTable+1))
	m.idle.unused = lsm.StoredWindow(of, idlePrefix(false), idlePrefix(true))
	m.idle.used = lsm.StoredWindow(of, idlePrefix(true), string(idleTable+1))
	m.purgedBatches = lsm.StoredWindow(of, string(purgedBatchTable), string(purgedBatchTable+1))
	m.publish() // it reads the first timer
	return nil
}

// loadQueues reads all queues. It fails if they take more memory than allowed (0: any), so the memory of the queues is
// bounded.
func (m *machine) loadQueues(allowed int64) error {
	var all []*queue
	use := QueueUse{}
	m.o.Scan(string(queueTable), string(queueTable+1), func(key string, value []byte) bool {
		use.Queues++
		use.Bytes += decodeQueueHead(value).bytes()
		if allowed == 0 || use.Bytes <= allowed {
			all = append(all, decodeQueue(lsm.U32At(key, 1), value))
		}
		return true
	})
	if len(all) < use.Queues {
		return &QueuesError{use, allowed}
	}
	for _, q := range all {
		for status, n := range q.counts {
			m.counts[status] += n
		}
	}
	m.queues.fill(all)
	return nil
}
