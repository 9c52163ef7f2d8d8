package lsm

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// Snapshot reads the database at one moment, through one iterator per table. The first byte of a key names its table. A
// scan of one table may look into other tables, but not scan its own. Looking up rows in ascending order is cheap.
type Snapshot struct {
	snapshot *pebble.Snapshot
	views    [256]*View
	leave    func()
}

// Snapshot opens a snapshot. The caller must close it.
func (d *DB) Snapshot() *Snapshot {
	if !d.readers.enter() {
		Fail("open view", ErrClosed)
	}
	return &Snapshot{snapshot: d.pebble.NewSnapshot(), leave: d.readers.leave}
}

// Close ends the snapshot.
func (s *Snapshot) Close() {
	var errs []error
	for _, v := range s.views {
		if v != nil {
			errs = append(errs, v.it.Close())
		}
	}
	errs = append(errs, s.snapshot.Close())
	s.leave()
	Fail("read", errors.Join(errs...)) // Pebble returns the errors of earlier reads here
}

// table returns the view of a key's table.
func (s *Snapshot) table(key string) *View {
	at := &s.views[key[0]]
	if *at == nil {
		it, err := s.snapshot.NewIter(&pebble.IterOptions{LowerBound: []byte{key[0]}, UpperBound: []byte{key[0] + 1}})
		Fail("open view", err)
		*at = &View{it: it}
	}
	return *at
}

// Get returns the value of key, or nil.
func (s *Snapshot) Get(key string) []byte { return s.table(key).Get(key) }

// Scan is View.Scan of one table.
func (s *Snapshot) Scan(from, to string, visit func(key string, value []byte) bool) {
	s.table(from).Scan(from, to, visit)
}

// All calls visit with all keys of all tables, in order.
func (s *Snapshot) All(visit func(key string)) {
	it, err := s.snapshot.NewIter(nil)
	Fail("open view", err)
	v := View{it: it}
	defer func() { Fail("read", it.Close()) }()
	v.Scan("\x00", "\xff", func(key string, _ []byte) bool { // race builds of Pebble refuse the empty key
		visit(key)
		return true
	})
}
