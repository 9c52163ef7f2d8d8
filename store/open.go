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
	s := &Store{Queries: newQueries(l, db), db: db, machine: m, beforeApply: o.BeforeApply}
	if err := m.load(o.Journal, o.QueueMemory); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Adopt gives a new store the UUID of the journal that it will be made from.
func (s *Store) Adopt(journal string) error {
	s.machine.live.mu.Lock()
	defer s.machine.live.mu.Unlock()
	if s.machine.live.meta.journal != "" && s.machine.live.meta.journal != journal {
		return fmt.Errorf("store of journal %s, not %s: %w", s.machine.live.meta.journal, journal, ErrForeignJournal)
	}
	s.machine.live.meta.journal = journal
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
