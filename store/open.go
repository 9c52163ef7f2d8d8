package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/daybookq/daybook/store/lsm"
)

// Open opens the store in dir, or creates it.
func Open(dir string, o Options) (_ *Store, err error) {
	standard := &standardBounds
	if o.Small {
		standard = &smallBounds
	}
	db, err := lsm.Open(dir, o.lsm())
	if err != nil {
		return nil, err
	}
	l := &live{queues: newQueues(), pages: newPageCache()}
	l.mu.open(cmp.Or(o.Patience, DefaultPatience))
	m := &machine{live: l, caches: newCaches(), o: db.Overlay(string([]byte{uniqueTable, onceTable, distinctTable})), bounds: cmp.Or(o.bounds, standard)}
	m.windows = &sharedWindows{Windows: lsm.Windows{Min: m.bounds.minWindow, Max: m.bounds.maxWindow, Limit: m.bounds.windowKeys}}
	l.queues.windows = &m.windows.Windows
	s := &Store{Queries: &Queries{live: l, db: db}, machine: m, beforeApply: o.BeforeApply}
	if err := m.load(o.Journal, o.QueueMemory); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

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

// Adopt gives a new store the UUID of the journal that it will be made from.
func (s *Store) Adopt(journal string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meta.journal != "" && s.meta.journal != journal {
		return fmt.Errorf("store of journal %s, not %s: %w", s.meta.journal, journal, ErrForeignJournal)
	}
	s.meta.journal = journal
	s.machine.reseed()
	return nil
}

// Peeked is the result of Peek.
type Peeked struct {
	Journal string // UUID of the journal that it was made from; "" if there is no store yet
	Applied uint64 // its cursor
	Torn    string // where its manifest becomes unreadable; "" if all of it can be read. If not "", Journal and Applied may be old
}

// Peek reads the cursor of the store in dir, and changes no file. Before opening a store, compare its cursor with
// the journal. If the manifest is cut off, Pebble opens the store in the older state that the rest of the manifest
// describes, and removes newer tables as soon as the store is open for writing. If the journal reaches back to that
// state, no data is lost, because the tables are rebuilt. Otherwise the removed tables were the only copy.
func Peek(dir string, o Options) (p Peeked, err error) {
	found, err := lsm.Peek(dir, metaKey, o.lsm())
	p.Torn = found.Torn
	if err != nil || found.Value == nil {
		return p, err
	}
	defer lsm.Catch(&err)
	m := decodeMeta(found.Value)
	p.Journal, p.Applied = m.journal, m.cursor
	return p, m.known()
}
