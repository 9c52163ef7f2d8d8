package lsm

import (
	"iter"

	"github.com/tidwall/btree"
)

// The caches have two generations. A value that is found in the older one moves to the younger one. When the younger
// generation holds half of what the cache may hold, it becomes the older one, and the values that were not looked up in
// the meantime are dropped. Dropping a whole map or tree is cheap, and no list of uses has to be kept.
//
// Invariant: a generation ends only after a commit. Until then, an object that was changed and not written yet is found
// again.

// Recent is a cache by key.
type Recent[K comparable, V any] struct{ young, old map[K]V }

// NewRecent returns an empty cache.
func NewRecent[K comparable, V any]() Recent[K, V] { return Recent[K, V]{young: map[K]V{}} }

// Get returns the value of a key, or the zero value.
func (r *Recent[K, V]) Get(key K) V {
	value, _ := r.Find(key)
	return value
}

// Find is Get, and reports whether the value moved to the younger generation.
func (r *Recent[K, V]) Find(key K) (value V, moved bool) {
	value, ok := r.young[key]
	if !ok {
		if value, moved = r.old[key]; moved {
			r.young[key] = value
			delete(r.old, key)
		}
	}
	return value, moved
}

// Set adds a value to the younger generation.
func (r *Recent[K, V]) Set(key K, value V) {
	r.young[key] = value
	delete(r.old, key)
}

// Delete removes a key.
func (r *Recent[K, V]) Delete(key K) {
	delete(r.young, key)
	delete(r.old, key)
}

// Age ends the generation.
func (r *Recent[K, V]) Age() { r.old, r.young = r.young, map[K]V{} }

// Trim ends the generation if the younger one holds more than half of limit.
func (r *Recent[K, V]) Trim(limit int) {
	if len(r.young) > limit/2 {
		r.Age()
	}
}

// All yields the cached values, in no order.
func (r *Recent[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, generation := range []map[K]V{r.young, r.old} {
			for _, value := range generation {
				if !yield(value) {
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
}

// NewRecentOrdered returns an empty cache of values in the order of less.
func NewRecentOrdered[T any](less func(a, b T) bool) RecentOrdered[T] {
	empty := func() *btree.BTreeG[T] { return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 32}) }
	return RecentOrdered[T]{empty(), empty(), empty}
}

// Find looks at the first value of each generation that is not less than from. It returns the one for which holds is
// true, and whether that moved to the younger generation.
func (r *RecentOrdered[T]) Find(from T, holds func(found *T) bool) (found T, ok, moved bool) {
	look := func(at T) bool {
		found, ok = at, holds(&at)
		return false
	}
	if r.young.Ascend(from, look); !ok && r.old.Len() > 0 {
		if r.old.Ascend(from, look); ok {
			r.old.Delete(found)
			r.young.Set(found)
			moved = true
		}
	}
	return found, ok, moved
}

// Get returns the value that is equal to key in the order.
func (r *RecentOrdered[T]) Get(key T) (found T, ok bool) {
	if found, ok = r.young.Get(key); !ok && r.old.Len() > 0 {
		if found, ok = r.old.Delete(key); ok {
			r.young.Set(found)
		}
	}
	return found, ok
}

// Set adds a value to the younger generation, in place of an equal one.
func (r *RecentOrdered[T]) Set(x T) {
	r.young.Set(x)
	if r.old.Len() > 0 {
		r.old.Delete(x)
	}
}

// Delete removes the value that is equal to x.
func (r *RecentOrdered[T]) Delete(x T) {
	r.young.Delete(x)
	if r.old.Len() > 0 {
		r.old.Delete(x)
	}
}

// Age ends the generation.
func (r *RecentOrdered[T]) Age() { r.old, r.young = r.young, r.empty() }

// Trim ends the generation if the younger one holds more than half of limit.
func (r *RecentOrdered[T]) Trim(limit int) {
	if r.young.Len() > limit/2 {
		r.Age()
	}
}

// Len returns how many values are cached.
func (r *RecentOrdered[T]) Len() int { return r.young.Len() + r.old.Len() }
