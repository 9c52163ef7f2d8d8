package lsm

import (
	"iter"

	"github.com/tidwall/btree"
)

// The caches have two generations. A lookup that finds a value in the older one moves it to the younger one. When the
// younger generation holds half of the bytes that the cache may hold, it becomes the older one, and the cache drops the
// values that were not looked up since. Dropping a whole map or tree is cheap, and the cache needs no list of uses.
//
// A cache counts bytes, never values: one value may take a thousand times as much as another.
//
// Invariant: a generation ends only after a commit. Until then, a lookup finds an object that was changed and not
// written yet.

// Recent is a cache by key.
type Recent[K comparable, V any] struct {
	young, old map[K]sized[V]
	size       func(V) int
	bytes      int // of the younger generation
}

type sized[V any] struct {
	value V
	bytes int // when it was set
}

// NewRecent returns an empty cache. size returns about how many bytes a value takes, with its key and its place.
func NewRecent[K comparable, V any](size func(V) int) Recent[K, V] {
	return Recent[K, V]{young: map[K]sized[V]{}, size: size}
}

// Get returns the value of a key, or the zero value.
func (r *Recent[K, V]) Get(key K) V {
	x, ok := r.young[key]
	if !ok {
		if x, ok = r.old[key]; ok {
			r.young[key] = x
			r.bytes += x.bytes
			delete(r.old, key)
		}
	}
	return x.value
}

// Set adds a value to the younger generation, and measures it. A value that has grown must be set again.
func (r *Recent[K, V]) Set(key K, value V) {
	r.Delete(key)
	x := sized[V]{value, r.size(value)}
	r.young[key] = x
	r.bytes += x.bytes
}

// Delete removes a key.
func (r *Recent[K, V]) Delete(key K) {
	if x, ok := r.young[key]; ok {
		r.bytes -= x.bytes
		delete(r.young, key)
	}
	if len(r.old) > 0 {
		delete(r.old, key)
	}
}

// Full reports whether the younger generation holds more than half of limit bytes.
func (r *Recent[K, V]) Full(limit int) bool { return r.bytes > limit/2 }

// Trim ends the generation if it is full.
func (r *Recent[K, V]) Trim(limit int) {
	if r.Full(limit) {
		r.old, r.young, r.bytes = r.young, map[K]sized[V]{}, 0
	}
}

// All yields the cached values, in no order.
func (r *Recent[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, generation := range []map[K]sized[V]{r.young, r.old} {
			for _, x := range generation {
				if !yield(x.value) {
					return
				}
			}
		}
	}
}

// Len returns how many values are cached.
func (r *Recent[K, V]) Len() int { return len(r.young) + len(r.old) }

// RecentOrdered is a cache of values that have an order, such as ranges by their ends.
type RecentOrdered[T any] struct {
	young, old *btree.BTreeG[T]
	empty      func() *btree.BTreeG[T]
	size       func(T) int
	bytes      int // of the younger generation
}

// NewRecentOrdered returns an empty cache of values in the order of less. size returns about how many bytes a value
// takes.
func NewRecentOrdered[T any](less func(a, b T) bool, size func(T) int) RecentOrdered[T] {
	empty := func() *btree.BTreeG[T] { return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 32}) }
	return RecentOrdered[T]{young: empty(), old: empty(), empty: empty, size: size}
}

// Find looks at the first value of each generation that is not less than from. It returns the one for which holds
// returns true.
func (r *RecentOrdered[T]) Find(from T, holds func(found *T) bool) (found T, ok bool) {
	look := func(at T) bool {
		found, ok = at, holds(&at)
		return false
	}
	if r.young.Ascend(from, look); !ok && r.old.Len() > 0 {
		if r.old.Ascend(from, look); ok {
			r.old.Delete(found)
			r.add(found)
		}
	}
	return found, ok
}

// Get returns the value that is equal to key in the order.
func (r *RecentOrdered[T]) Get(key T) (found T, ok bool) {
	if found, ok = r.young.Get(key); !ok && r.old.Len() > 0 {
		if found, ok = r.old.Delete(key); ok {
			r.add(found)
		}
	}
	return found, ok
}

func (r *RecentOrdered[T]) add(x T) {
	if before, replaced := r.young.Set(x); replaced {
		r.bytes -= r.size(before)
	}
	r.bytes += r.size(x)
}

// Set adds a value to the younger generation, in place of an equal one.
func (r *RecentOrdered[T]) Set(x T) {
	r.add(x)
	if r.old.Len() > 0 {
		r.old.Delete(x)
	}
}

// Delete removes the value that is equal to x.
func (r *RecentOrdered[T]) Delete(x T) {
	if before, found := r.young.Delete(x); found {
		r.bytes -= r.size(before)
	}
	if r.old.Len() > 0 {
		r.old.Delete(x)
	}
}

// Full reports whether the younger generation holds more than half of limit bytes.
func (r *RecentOrdered[T]) Full(limit int) bool { return r.bytes > limit/2 }

// Trim ends the generation if it is full.
func (r *RecentOrdered[T]) Trim(limit int) {
	if r.Full(limit) {
		r.old, r.young, r.bytes = r.young, r.empty(), 0
	}
}

// Len returns how many values are cached.
func (r *RecentOrdered[T]) Len() int { return r.young.Len() + r.old.Len() }
