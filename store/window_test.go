package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWindowIsASortedSet compares a window over a store's keys with a sorted set.
func TestWindowIsASortedSet(t *testing.T) {
	for seed := uint64(1); seed <= 60; seed++ {
		random := rand.New(rand.NewPCG(seed, 3))
		s := mustOpen(t, Options{})
		o := &s.o
		size := &bounds{minWindow: 1 + random.IntN(2), maxWindow: 2 + random.IntN(8)}
		w := newWindow(size, "U")
		var model []string
		has := func(key string) (int, bool) { return slices.BinarySearch(model, key) }
		for range 600 {
			key := fmt.Sprintf("T%03d", random.IntN(200))
			at, there := has(key)
			switch n := random.IntN(10); {
			case n < 4 && !there:
				o.set(key, nil)
				w.insert(key)
				model = slices.Insert(model, at, key)
			case n < 5 && there:
				o.del(key)
				w.remove(key)
				model = slices.Delete(model, at, at+1)
			case n < 9 && len(model) > 0: // as a claim takes from the front
				key = model[0]
				o.del(key)
				w.remove(key)
				model = model[1:]
			case n == 9 && random.IntN(20) == 0: // as after a restart
				w = storedWindow(size, "T", "U")
			}
			want := ""
			if len(model) > 0 {
				want = model[0]
			}
			if got := w.first(o); got != want {
				t.Fatalf("seed %d: first is %q, the set has %q", seed, got, want)
			}
			if len(w.keys) > w.max {
				t.Fatalf("seed %d: the window holds %d keys of %d", seed, len(w.keys), w.max)
			}
			// Invariant: keys holds, in order, every live key below bound, or every live key when all is set.
			upto := len(model)
			if !w.all {
				upto, _ = has(w.bound)
			}
			if !slices.Equal(w.keys, model[:upto]) {
				t.Fatalf("seed %d: keys %q below %q (all %v), the set has %q", seed, w.keys, w.bound, w.all, model)
			}
		}
		o.cut("T", "U")
	}
}
