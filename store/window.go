package store

import (
	"slices"
	"strings"
)

// window remembers the first live keys of a range, or the last ones when it looks down from the end, so that taking from there does not
// walk over the tombstones of what was taken before: an LSM tree keeps deleted keys until compaction, and a seek to the front of a queue
// would pass them all.
//
// Invariant: keys holds, in the order in which they are taken, every live key of the range that comes before bound, or every live key
// when all is set.
type window struct {
	keys     []string
	bound    string
	all      bool
	down     bool
	from, to string // the range; to is not in it
	size     int    // how many keys the next refill takes
	of       *windows
}

// windows is what all windows of a store share: their sizes, and a budget.
type windows struct {
	*bounds
	keys  int // in all of them
	limit int // of keys, after which all shrink, some queues at a time
	// shrunk is the last queue whose windows have shrunk since the limit was passed.
	shrunk queueName
}

// newWindow is for a range that holds no key yet.
func newWindow(of *windows, from, to string) window {
	return window{all: true, from: from, to: to, size: of.minWindow, of: of}
}

// storedWindow is for a range of the database that has not been looked at: from … to (not included).
func storedWindow(of *windows, from, to string) window {
	return window{bound: from, from: from, to: to, size: of.minWindow, of: of}
}

// downWindow is storedWindow from the end of the range.
func downWindow(of *windows, from, to string) window {
	return window{bound: to, down: true, from: from, to: to, size: of.minWindow, of: of}
}

// compare orders keys as they are taken.
func (w *window) compare(a, b string) int {
	if w.down {
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}

// insert tells that key has come to life. It may come before everything else.
func (w *window) insert(key string) {
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
	if len(w.keys) > w.of.maxWindow {
		w.shrink(len(w.keys) / 2)
	}
}

// shrink forgets all but the first n keys.
func (w *window) shrink(n int) {
	if len(w.keys) > n {
		w.of.keys -= len(w.keys) - n
		w.bound, w.all = w.keys[n], false
		w.keys = slices.Clone(w.keys[:n])
	}
}

// remove tells that key has gone.
func (w *window) remove(key string) {
	if len(w.keys) > 0 && w.keys[0] == key {
		w.keys = w.keys[1:]
		w.of.keys--
	} else if at, found := slices.BinarySearchFunc(w.keys, key, w.compare); found {
		w.keys = slices.Delete(w.keys, at, at+1)
		w.of.keys--
	}
}

// first returns the first live key, or "". It reads through o when the window is used up.
func (w *window) first(o *overlay) string {
	if len(w.keys) == 0 && !w.all {
		w.refill(o)
	}
	if len(w.keys) == 0 {
		return ""
	}
	return w.keys[0]
}

func (w *window) refill(o *overlay) {
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
		o.scanDown(w.from, to, take)
	} else {
		o.scan(w.bound, w.to, take)
	}
	w.of.keys += len(w.keys)
	w.size = min(2*w.size, w.of.maxWindow)
}

// shrunkQueues is how many queues a commit looks at to shrink their windows.
const shrunkQueues = 1000

// shrinkWindows shrinks the windows of some queues, the next commit those of the next ones.
func (s *Store) shrinkWindows() {
	n := 0
	s.queues.names.Ascend(&queue{client: s.windows.shrunk.client, typ: s.windows.shrunk.typ + "\x00"}, func(q *queue) bool {
		for _, l := range q.lanes {
			l.window.shrink(s.bounds.minWindow)
			if l.tail != nil {
				l.tail.shrink(s.bounds.minWindow)
			}
		}
		s.windows.shrunk = queueName{q.client, q.typ}
		n++
		return n < shrunkQueues
	})
	if n < shrunkQueues { // that was the last one
		s.timers.shrink(s.bounds.minWindow)
		s.unusedSessions.shrink(s.bounds.minWindow)
		s.usedSessions.shrink(s.bounds.minWindow)
		s.windows.limit = max(s.bounds.windowKeys, 2*s.windows.keys) // so many queues need more
		s.windows.shrunk = queueName{}
	}
}
