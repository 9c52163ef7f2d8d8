package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
	"github.com/daybookq/daybook/store/query"
)

// Open opens the store in dir, or creates it.
func Open(dir string, o Options) (_ *Store, err error) {
	standard := &memory.StandardBounds
	if o.Small {
		standard = &memory.SmallBounds
	}
	db, err := lsm.Open(dir, o.lsm())
	if err != nil {
		return nil, err
	}
	l := &memory.Live{AllQueues: memory.NewQueues(), Pages: memory.NewPageCache()}
	l.Mu.Open(cmp.Or(o.Patience, memory.DefaultPatience))
	m := &machine.Machine{Live: l, Caches: memory.NewCaches(), O: db.Overlay(string([]byte{row.UniqueTable, row.OnceTable, row.DistinctTable})), Bounds: cmp.Or(o.bounds, standard)}
	m.Windows = &memory.SharedWindows{Windows: lsm.Windows{Min: m.Bounds.MinWindow, Max: m.Bounds.MaxWindow, Limit: m.Bounds.WindowKeys}}
	l.AllQueues.Windows = &m.Windows.Windows
	s := &Store{Queries: query.New(l, db), db: db, machine: m, beforeApply: o.BeforeApply}
	if err := m.Load(o.Journal, o.QueueMemory); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	db.DropCache() // what was loaded is in memory; what is needed again, is read again
	return s, nil
}

// Adopt gives a new store the UUID of the journal that it will be made from.
func (s *Store) Adopt(journal string) error {
	s.machine.Live.Mu.Lock()
	defer s.machine.Live.Mu.Unlock()
	if s.machine.Live.Meta.Journal != "" && s.machine.Live.Meta.Journal != journal {
		return fmt.Errorf("store of journal %s, not %s: %w", s.machine.Live.Meta.Journal, journal, row.ErrForeignJournal)
	}
	s.machine.Live.Meta.Journal = journal
	s.machine.Reseed()
	return nil
}

// Peeked is the result of Peek.
type Peeked struct {
	Journal string // UUID of the journal that it was made from; "" if there is no store yet
	Applied uint64 // its cursor
	At      int64  // the time of the command there, in unix ms
	Cluster job.Cluster
	Torn    string // where its manifest becomes unreadable; "" if all of it can be read. If not "", Journal and Applied may be old
}

// Peek reads the cursor of the store in dir, and changes no file. Before opening a store, compare its cursor with
// the journal. If the manifest is cut off, Pebble opens the store in the older state that the rest of the manifest
// describes, and removes newer tables as soon as the store is open for writing. If the journal reaches back to that
// state, no data is lost, because the tables are rebuilt. Otherwise the removed tables were the only copy.
func Peek(dir string, o Options) (p Peeked, err error) {
	found, err := lsm.Peek(dir, row.MetaKey, o.lsm())
	p.Torn = found.Torn
	if err != nil || found.Value == nil {
		return p, err
	}
	defer lsm.Catch(&err)
	m := row.DecodeMeta(found.Value)
	p.Journal, p.Applied, p.At, p.Cluster = m.Journal, m.Cursor, m.At, m.Cluster
	return p, m.Known()
}
