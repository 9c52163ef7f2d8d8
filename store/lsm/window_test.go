package lsm

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
		d := mustOpen(t)
		o := d.Overlay("")
		size := &Windows{Min: 1 + random.IntN(2), Max: 2 + random.IntN(8)}
		down := seed%2 == 0
		w := NewWindow(size, "T", "U")
		if down {
			w = DownWindow(size, "T", "U")
		}
		var model []string
		has := func(key string) (int, bool) { return slices.BinarySearch(model, key) }
		for range 600 {
			key := fmt.Sprintf("T%03d", random.IntN(200))
			at, there := has(key)
			switch n := random.IntN(10); {
			case n < 4 && !there:
				o.Set(key, nil)
				w.Insert(key)
				model = slices.Insert(model, at, key)
			case n < 5 && there:
				o.Delete(key)
				w.Remove(key)
				model = slices.Delete(model, at, at+1)
			case n < 9 && len(model) > 0: // as a claim takes from the front
				front := 0
				if down {
					front = len(model) - 1
				}
				key = model[front]
				o.Delete(key)
				w.Remove(key)
				model = slices.Delete(model, front, front+1)
			case n == 9 && random.IntN(20) == 0: // as after a restart
				size.keys = 0
				if w = StoredWindow(size, "T", "U"); down {
					w = DownWindow(size, "T", "U")
				}
			case n == 9 && random.IntN(5) == 0: // as when all windows hold too much
				w.Shrink(size.Min)
			}
			want := ""
			if len(model) > 0 {
				if want = model[0]; down {
					want = model[len(model)-1]
				}
			}
			if got := w.First(&o); got != want {
				t.Fatalf("seed %d: first is %q, the set has %q", seed, got, want)
			}
			if len(w.keys) > size.Max || len(w.keys) != size.Keys() {
				t.Fatalf("seed %d: the window holds %d keys of %d, and counts %d", seed, len(w.keys), size.Max, size.Keys())
			}
			// Invariant: keys holds, in order, every live key before bound, or every live key when all is set.
			known := model
			if at, there := has(w.bound); !w.all && down {
				if there {
					at++
				}
				known = model[at:]
			} else if !w.all {
				known = model[:at]
			}
			if known = slices.Clone(known); down {
				slices.Reverse(known)
			}
			if !slices.Equal(w.keys, known) {
				t.Fatalf("seed %d: keys %q below %q (all %v), the set has %q", seed, w.keys, w.bound, w.all, model)
			}
		}
		o.DeleteRange("T", "U")
	}
}
