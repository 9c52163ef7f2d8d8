package lsm

import (
	"strings"

	"github.com/cockroachdb/pebble/v2"
)

// Rows is for code that serves both the writer, through its Overlay, and queries, through a View.
type Rows interface {
	// Get returns the value of key, or nil.
	Get(key string) []byte
	// Scan calls visit with the rows from … to (exclusive), in order, until it returns false. The value is valid during
	// the visit.
	Scan(from, to string, visit func(key string, value []byte) bool)
}

// View reads the database at one moment, through one iterator. Failed reads panic, see Fail. A View is not safe for
// concurrent use, and its methods must not be called inside a Scan of the same view.
type View struct {
	it    *pebble.Iterator
	leave func()
}

// Close ends the view, and fails if the view has met damage.
func (v View) Close() {
	err := v.it.Close()
	v.leave()
	Fail("read", err) // Pebble returns the errors of earlier reads here
}

// Discard ends a view whose user has already reported the damage that the view met.
func (v View) Discard() {
	v.it.Close()
	v.leave()
}

// Stats returns how much the view has read, for tests.
func (v View) Stats() pebble.IteratorStats { return v.it.Stats() }

// Get returns the value of a key, or nil. The filters of the tables recognize an absent key, so Get does not pass
// deleted neighbours in search of the next key.
func (v View) Get(key string) []byte {
	if v.it.SeekPrefixGE([]byte(key)) && string(v.it.Key()) == key { // the whole key is its prefix
		return append([]byte{}, v.it.Value()...) // not nil, though it may be empty
	}
	Fail("read", v.it.Error())
	return nil
}

// Newest returns the value of the last key with a prefix, or nil. It is valid until the view is used again.
func (v View) Newest(prefix string) []byte {
	if v.it.SeekLTWithLimit([]byte(After(prefix)), []byte(prefix)) == pebble.IterValid && strings.HasPrefix(string(v.it.Key()), prefix) {
		return v.it.Value()
	}
	Fail("read", v.it.Error())
	return nil
}

// Scan calls visit with the rows from … to (exclusive), in order, until it returns false. It stops at to even if only
// deleted keys are there.
func (v View) Scan(from, to string, visit func(key string, value []byte) bool) {
	limit := []byte(to)
	for at := v.it.SeekGEWithLimit([]byte(from), limit); at == pebble.IterValid && string(v.it.Key()) < to; at = v.it.NextWithLimit(limit) {
		if !visit(string(v.it.Key()), v.it.Value()) {
			return
		}
	}
	Fail("scan", v.it.Error())
}

// ScanDown is Scan in the opposite order, from the last row before to.
func (v View) ScanDown(from, to string, visit func(key string, value []byte) bool) {
	limit := []byte(from)
	for at := v.it.SeekLTWithLimit([]byte(to), limit); at == pebble.IterValid && string(v.it.Key()) >= from; at = v.it.PrevWithLimit(limit) {
		if !visit(string(v.it.Key()), v.it.Value()) {
			return
		}
	}
	Fail("scan", v.it.Error())
}
