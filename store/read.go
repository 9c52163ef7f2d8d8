package store

import (
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// rows is what both Apply, through its overlay, and queries, through a view, read from.
type rows interface {
	// get returns the value of key, or nil.
	get(key string) []byte
	// scan calls visit with the rows from … to (not included), in order, until it returns false. The value is valid during
	// the visit.
	scan(from, to string, visit func(key string, value []byte) bool)
}

// view reads one moment of the database through one iterator.
type view struct {
	it    *pebble.Iterator
	leave func()
}

// view opens a view; close it. Like overlay, it fails by panicking with *Error.
func (s *Store) view() view { return s.viewWith(&pebble.IterOptions{UseL6Filters: true}) }

func (s *Store) viewWith(o *pebble.IterOptions) view {
	if !s.readers.enter() {
		fail("open view", ErrClosed)
	}
	it, err := s.db.NewIter(o)
	if err != nil {
		s.readers.leave()
		fail("open view", err)
	}
	return view{it, s.readers.leave}
}

func (v view) close() {
	err := v.it.Close()
	v.leave()
	fail("close view", err)
}

// discard closes a view whatever it has met, which whoever used it has reported.
func (v view) discard() {
	v.it.Close()
	v.leave()
}

// gate lets readers in until it is shut, and whoever shuts it waits for those inside. A lock would not do: who is inside may enter
// again.
type gate struct {
	mu     sync.Mutex
	inside int
	shut   chan struct{} // made when it is shut; closed when nobody is inside any more
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.shut != nil {
		close(g.shut)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	if g.shut == nil {
		if g.shut = make(chan struct{}); g.inside == 0 {
			close(g.shut)
		}
	}
	g.mu.Unlock()
	<-g.shut
}

// get looks for the one key: a prefix of a key is all of it. Where the key is absent the filters of the tables say so, and no deleted
// neighbours are passed in search of the next key.
func (v view) get(key string) []byte {
	if v.it.SeekPrefixGE([]byte(key)) && string(v.it.Key()) == key {
		return append([]byte{}, v.it.Value()...) // not nil, though it be empty
	}
	fail("read", v.it.Error())
	return nil
}

// newest returns the value of the last key that begins with prefix, or nil. It is valid until the view is used again.
func (v view) newest(prefix string) []byte {
	if v.it.SeekLTWithLimit([]byte(after(prefix)), []byte(prefix)) == pebble.IterValid && strings.HasPrefix(string(v.it.Key()), prefix) {
		return v.it.Value()
	}
	fail("read", v.it.Error())
	return nil
}

// scan stops at the end of the range, also among deleted keys.
func (v view) scan(from, to string, visit func(key string, value []byte) bool) {
	limit := []byte(to)
	for at := v.it.SeekGEWithLimit([]byte(from), limit); at == pebble.IterValid && string(v.it.Key()) < to; at = v.it.NextWithLimit(limit) {
		if !visit(string(v.it.Key()), v.it.Value()) {
			return
		}
	}
	fail("scan", v.it.Error())
}
