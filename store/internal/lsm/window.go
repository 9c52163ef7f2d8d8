package lsm

import (
	"slices"
	"strings"
)

// Window remembers the first keys of a range, or the last ones if it takes them from the end. Without it, each seek to
// the front of a queue would have to skip the tombstones of all keys that were taken before, because an LSM tree keeps
// deleted keys until compaction.
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
	gap      *Gap // that a refill skips; nil if none is known
}

// Windows is shared by all windows of a store. It holds their sizes and a budget.
type Windows struct {
	// Min and Max bound the keys of one window: the first refill takes Min, and later ones more.
	Min, Max int
	// Limit is how many keys all windows may hold before their owner should Shrink them.
	Limit int
	keys  int
	open  int // windows that have not been closed
}

// windowKeys is how many keys an open window counts as, in addition to the keys that it holds.
const windowKeys = 3

// Keys returns how many keys all windows hold.
func (w *Windows) Keys() int { return w.keys }

// Full reports whether the windows hold more keys than Limit.
func (w *Windows) Full() bool { return w.keys+windowKeys*w.open > w.Limit }

// NewWindow returns the window of a range that is still empty.
func NewWindow(of *Windows, from, to string) Window {
	of.open++
	return Window{all: true, from: from, to: to, size: of.Min, of: of}
}

// StoredWindow returns the window of a range of the database: from … to (exclusive).
func StoredWindow(of *Windows, from, to string) Window {
	of.open++
	return Window{bound: from, from: from, to: to, size: of.Min, of: of}
}

// DownWindow is StoredWindow, but takes keys from the end of the range.
func DownWindow(of *Windows, from, to string) Window {
	of.open++
	return Window{bound: to, down: true, from: from, to: to, size: of.Min, of: of}
}

// From and To return the bounds of the window's range; To is exclusive.
func (w *Window) From() string { return w.from }
func (w *Window) To() string   { return w.to }

// Begin moves the start of a stored window, before its first refill: no key of its range precedes first.
func (w *Window) Begin(first string) { w.bound = first }

// Pass makes refills of the window skip a gap of its range; nil: none.
func (w *Window) Pass(g *Gap) { w.gap = g }

// Knows reports whether the window would hold this key of its range if the key is live.
func (w *Window) Knows(key string) bool { return w.all || w.compare(key, w.bound) < 0 }

// Last returns the last key of the range, or "" if the range is empty. It is not ok if the window does not hold all
// keys of the range.
func (w *Window) Last() (key string, ok bool) {
	if w.all && len(w.keys) > 0 {
		return w.keys[len(w.keys)-1], true
	}
	return "", w.all
}

// Close ends a window. It must not be used afterwards.
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

// Insert adds a key, which may be lower than all present keys.
func (w *Window) Insert(key string) {
	if !w.Knows(key) {
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
	if w.down { // bound is the end of the range, or a key that the window does not hold
		to := w.bound
		if to != w.to {
			to += "\x00"
		}
		w.gap.ScanDown(o, w.from, to, take)
	} else {
		w.gap.Scan(o, w.bound, w.to, take)
	}
	w.of.keys += len(w.keys)
	w.size = min(2*w.size, w.of.Max)
}

// Gap remembers where a range has many deleted keys, and which keys follow them. Until Pebble has compacted deleted
// keys away, a scan has to skip each of them. Windows cover the two ends of a range, and a gap its middle. The rows of
// the range must have empty values. A gap may be forgotten at any time.
//
// A gap is a window that begins at a deleted key. While keys are deleted one after another, the window moves on and the
// gap grows.
type Gap struct {
	after Window // from the first key of the gap on
	// dead counts the keys deleted in the gap. elsewhere counts the keys deleted since then outside the gap's window.
	dead, elsewhere int
}

// NewGap returns a gap that begins at a deleted key, of a range that ends at to.
func NewGap(of *Windows, key, to string) *Gap {
	return &Gap{after: StoredWindow(of, key, to), dead: 1}
}

// Close ends a gap. It must not be used afterwards.
func (g *Gap) Close() { g.after.Close() }

// Insert notes that a key was added to the range.
func (g *Gap) Insert(key string) {
	if key >= g.after.from {
		g.after.Insert(key)
	}
}

// Remove notes that a key of the range was deleted. last says that it was the range's last key.
func (g *Gap) Remove(key string, last bool) {
	w := &g.after
	switch {
	case key >= w.from && (w.Knows(key) || !g.known()):
		w.Remove(key)
		g.dead++
	case key < w.from && last && w.all && len(w.keys) == 0: // the gap reaches the end, and now begins earlier
		w.from = key
		g.dead++
	default:
		g.elsewhere++
	}
}

// From returns the first key of the gap.
func (g *Gap) From() string { return g.after.from }

// Surpassed reports whether more keys were deleted elsewhere than in the gap. A gap elsewhere would then help more.
func (g *Gap) Surpassed() bool { return g.elsewhere > g.dead }

// known reports whether the gap knows which key follows it.
func (g *Gap) known() bool { return g.after.all || len(g.after.keys) > 0 }

// Settled reports whether the gap knows which key follows it. A nil gap is settled.
func (g *Gap) Settled() bool { return g == nil || g.known() }

// Settle finds the key that follows the gap.
func (g *Gap) Settle(o *Overlay) { g.after.First(o) }

// unknown reports whether the gap cannot help with the keys from … to. g may be nil.
func (g *Gap) unknown(from, to string) bool {
	return g == nil || to <= g.after.from || !g.after.all && (g.after.bound <= from || g.after.bound == g.after.from)
}

// Scan is Overlay.Scan of a part of the range, without the deleted keys of the gap. g may be nil.
func (g *Gap) Scan(o *Overlay, from, to string, visit func(key string, value []byte) bool) {
	if g.unknown(from, to) {
		o.Scan(from, to, visit)
		return
	}
	w, more := &g.after, true
	if from < w.from {
		o.Scan(from, w.from, func(key string, value []byte) bool {
			more = visit(key, value)
			return more
		})
	}
	for _, key := range w.keys {
		if more && key >= from && key < to {
			more = visit(key, nil)
		}
	}
	if more && !w.all && w.bound < to {
		o.Scan(w.bound, to, visit)
	}
}

// ScanDown is Overlay.ScanDown of a part of the range, without the deleted keys of the gap. g may be nil.
func (g *Gap) ScanDown(o *Overlay, from, to string, visit func(key string, value []byte) bool) {
	if g.unknown(from, to) {
		o.ScanDown(from, to, visit)
		return
	}
	w, more := &g.after, true
	if !w.all && w.bound < to {
		o.ScanDown(max(from, w.bound), to, func(key string, value []byte) bool {
			more = visit(key, value)
			return more
		})
	}
	for i := len(w.keys) - 1; i >= 0 && more; i-- {
		if key := w.keys[i]; key >= from && key < to {
			more = visit(key, nil)
		}
	}
	if more && from < w.from {
		o.ScanDown(from, w.from, visit)
	}
}
