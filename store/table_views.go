package store

import (
	"github.com/cockroachdb/pebble/v2"
)

// tableViews reads one moment of the database through an iterator for each table. Tables may be scanned one inside the other, but none
// inside itself. Looking rows up in ascending order is cheap.
type tableViews struct {
	snapshot *pebble.Snapshot
	views    [256]*view
	leave    func()
}

func (s *Store) sideBySide() *tableViews {
	if !s.readers.enter() {
		fail("open view", ErrClosed)
	}
	return &tableViews{snapshot: s.db.NewSnapshot(), leave: s.readers.leave}
}

func (t *tableViews) close() {
	for _, v := range t.views {
		if v != nil {
			fail("close view", v.it.Close())
		}
	}
	err := t.snapshot.Close()
	t.leave()
	fail("close view", err)
}

// of returns the view of the table that a key is of.
func (t *tableViews) of(key string) *view {
	at := &t.views[key[0]]
	if *at == nil {
		it, err := t.snapshot.NewIter(&pebble.IterOptions{LowerBound: []byte{key[0]}, UpperBound: []byte{key[0] + 1}})
		fail("open view", err)
		*at = &view{it: it}
	}
	return *at
}

func (t *tableViews) get(key string) []byte { return t.of(key).get(key) }

func (t *tableViews) scan(from, to string, visit func(key string, value []byte) bool) {
	t.of(from).scan(from, to, visit)
}
