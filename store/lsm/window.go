package lsm

import (
	"slices"
	"strings"
)

// Window remembers the first keys of a range, or the last ones if it looks down from the end. Taking keys from there
// does not pass the tombstones of keys that were taken before: an LSM tree keeps deleted keys until compaction, and a
// seek to the front of a queue would pass all of them.
//
// Invariant: keys holds, in the order in which they are taken, every live key of the range before bound, or every live
// key if all is set.
type Window struct {
	keys     []string
	bound    string
	all      bool
	down     bool
	from, to string // the range; to is exclusive
	size     int    // how many keys the next refill takes
	of       *Windows
}

// Windows is what all windows of a store share: their sizes and a budget.
type Windows struct {
	// Min and Max bound the keys of one window: the first refill takes Min, and later ones more.
	Min, Max int
	// Limit is how many keys all windows may hold before their owner should Shrink them.
	Limit int
	keys  int
	open  int // windows that have not been closed
}

// windowKeys is as how many keys a window counts that holds none.
const windowKeys = 3

// Keys returns how many keys all windows hold.
func (w *Windows) Keys() int { return w.keys }

// Full reports whether the windows hold more keys than Limit.
func (w *Windows) Full() bool { return w.keys+windowKeys*w.open > w.Limit }

// NewWindow returns the window of a range that has no key yet.
func NewWindow(of *Windows, from, to string) Window {
	of.open++
	return Window{all: true, from: from, to: to, size: of.Min, of: of}
}

// StoredWindow returns the window of a range of the database: from … to (exclusive).
func StoredWindow(of *Windows, from, to string) Window {
	of.open++
	return Window{bound: from, from: from, to: to, size: of.Min, of: of}
}

// DownWindow is StoredWindow from the end of the range.
func DownWindow(of *Windows, from, to string) Window {
	of.open++
	return Window{bound: to, down: true, from: from, to: to, size: of.Min, of: of}
}

// From returns where the range of the window begins, and To where it ends, exclusive.
func (w *Window) From() string { return w.from }
func (w *Window) To() string   { return w.to }

// Begin says, before the first refill of a stored window, that no key of its range comes before first.
func (w *Window) Begin(first string) { w.bound = first }

// Last returns the last key of a range of which the window holds all keys, and "" if it has none; not ok if it does not
// hold all.
func (w *Window) Last() (key string, ok bool) {
	if w.all && len(w.keys) > 0 {
		return w.keys[len(w.keys)-1], true
	}
	return "", w.all
}

// Close ends a window, which must not be used any more.
func (w *Window) Close() {
	w.of.keys -= len(w.keys)
	w.of.open--
	w.keys = nil
}

// Known returns the keys that the window holds, in the order in which they are taken. They are valid until the window
// is used again.
func (w *Window) Known() []string { return w.keys }

// compare orders keys as they are taken.
func (w *Window) compare(a, b string) int {
	if w.down {
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}

// Insert adds a key, which may be less than all others.
func (w *Window) Insert(key string) {
	if !w.all && w.compare(key, w.bound) >= 0 {
		return
	}
	if n := len(w.keys); n > 0 && w.compare(w.keys[n-1], key) < 0 {
		w.keys = append(w.keys, key)
	} else {
		at, found := slices.BinarySearchFunc(w.keys, key, w.compare)
		if found {
			return
		}
		w.keys = slices.Insert(w.keys, at, key)
	}
	w.of.keys++
	if len(w.keys) > w.of.Max {
		w.Shrink(len(w.keys) / 2)
	}
}

// Shrink drops all but the first n keys.
func (w *Window) Shrink(n int) {
	if len(w.keys) > n {
		w.of.keys -= len(w.keys) - n
		w.bound, w.all = w.keys[n], false
		w.keys = slices.Clone(w.keys[:n])
	}
}

// Remove removes a key.
func (w *Window) Remove(key string) {
	if len(w.keys) > 0 && w.keys[0] == key {
		w.keys = w.keys[1:]
		w.of.keys--
	} else if at, found := slices.BinarySearchFunc(w.keys, key, w.compare); found {
		w.keys = slices.Delete(w.keys, at, at+1)
		w.of.keys--
	}
}

// First returns the first key, or "" if there is none. It reads through o when the window is empty.
func (w *Window) First(o *Overlay) string {
	if len(w.keys) == 0 && !w.all {
		w.refill(o)
	}
	if len(w.keys) == 0 {
		return ""
	}
	return w.keys[0]
}

func (w *Window) refill(o *Overlay) {
	w.keys = make([]string, 0, w.size+1)
	w.all = true
	take := func(key string, _ []byte) bool {
		if len(w.keys) == w.size {
			w.bound, w.all = key, false
			return false
		}
		w.keys = append(w.keys, key)
		return true
	}
	if w.down { // bound is the end of the range, or a key that belongs to what is not known
		to := w.bound
		if to != w.to {
			to += "\x00"
		}
		o.ScanDown(w.from, to, take)
	} else {
		o.Scan(w.bound, w.to, take)
	}
	w.of.keys += len(w.keys)
	w.size = min(2*w.size, w.of.Max)
}
