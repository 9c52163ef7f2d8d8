package store

import "github.com/tidwall/btree"

// The caches of rows have two generations. What is looked up in the older one moves to the younger one. When the younger one holds half of
// what the cache may, it becomes the older one, and whatever has not been looked up in the meantime is dropped. A map or tree that is
// dropped as a whole costs nothing, and no list of uses is kept, while rows in use stay.
//
// Invariant: a generation ends only after a commit. Between commits an object that was changed, and whose row is not written yet, is found
// again.

// recent is a cache by key.
type recent[K comparable, V any] struct{ young, old map[K]V }

func newRecent[K comparable, V any]() recent[K, V] { return recent[K, V]{young: map[K]V{}} }

// get returns the value of a key; the zero value when it is not here.
func (r *recent[K, V]) get(key K) V {
	value, _ := r.find(key)
	return value
}

// find is get, and reports whether the value moved to the younger generation.
func (r *recent[K, V]) find(key K) (value V, moved bool) {
	value, ok := r.young[key]
	if !ok {
		if value, moved = r.old[key]; moved {
			r.young[key] = value
			delete(r.old, key)
		}
	}
	return value, moved
}

func (r *recent[K, V]) set(key K, value V) {
	r.young[key] = value
	delete(r.old, key)
}

func (r *recent[K, V]) del(key K) {
	delete(r.young, key)
	delete(r.old, key)
}

// age ends the generation.
func (r *recent[K, V]) age() { r.old, r.young = r.young, map[K]V{} }

// trim ends the generation when the younger one has half of limit.
func (r *recent[K, V]) trim(limit int) {
	if len(r.young) > limit/2 {
		r.age()
	}
}

// recentLines is a cache of what holds a range of a batch's lines, by its last line.
type recentLines[T any] struct {
	young, old *btree.BTreeG[T]
	empty      func() *btree.BTreeG[T]
}

func newRecentLines[T any](less func(a, b T) bool) recentLines[T] {
	empty := func() *btree.BTreeG[T] { return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 32}) }
	return recentLines[T]{empty(), empty(), empty}
}

// find returns the first that is not less than from in one of the generations and holds what is looked for, and whether it moved to the
// younger one.
func (r *recentLines[T]) find(from T, holds func(found *T) bool) (found T, ok, moved bool) {
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

// get returns the one that equals key in order.
func (r *recentLines[T]) get(key T) (found T, ok bool) {
	if found, ok = r.young.Get(key); !ok && r.old.Len() > 0 {
		if found, ok = r.old.Delete(key); ok {
			r.young.Set(found)
		}
	}
	return found, ok
}

func (r *recentLines[T]) set(x T) {
	r.young.Set(x)
	if r.old.Len() > 0 {
		r.old.Delete(x)
	}
}

func (r *recentLines[T]) del(x T) {
	r.young.Delete(x)
	if r.old.Len() > 0 {
		r.old.Delete(x)
	}
}

// age ends the generation.
func (r *recentLines[T]) age() { r.old, r.young = r.young, r.empty() }

// trim ends the generation when the younger one has half of limit.
func (r *recentLines[T]) trim(limit int) {
	if r.young.Len() > limit/2 {
		r.age()
	}
}
