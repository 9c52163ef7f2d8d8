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
		size := &windows{bounds: &bounds{minWindow: 1 + random.IntN(2), maxWindow: 2 + random.IntN(8)}}
		down := seed%2 == 0
		w := newWindow(size, "T", "U")
		if down {
			w = downWindow(size, "T", "U")
		}
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
				front := 0
				if down {
					front = len(model) - 1
				}
				key = model[front]
				o.del(key)
				w.remove(key)
				model = slices.Delete(model, front, front+1)
			case n == 9 && random.IntN(20) == 0: // as after a restart
				size.keys = 0
				if w = storedWindow(size, "T", "U"); down {
					w = downWindow(size, "T", "U")
				}
			case n == 9 && random.IntN(5) == 0: // as when all windows hold too much
				w.shrink(size.minWindow)
			}
			want := ""
			if len(model) > 0 {
				if want = model[0]; down {
					want = model[len(model)-1]
				}
			}
			if got := w.first(o); got != want {
				t.Fatalf("seed %d: first is %q, the set has %q", seed, got, want)
			}
			if len(w.keys) > size.maxWindow || len(w.keys) != size.keys {
				t.Fatalf("seed %d: the window holds %d keys of %d, and counts %d", seed, len(w.keys), size.maxWindow, size.keys)
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
		o.cut("T", "U")
	}
}

// TestWindowsShareABudget makes many queues with many spans each: what their windows hold is bounded in sum.
func TestWindowsShareABudget(t *testing.T) {
	small := standardBounds
	small.windowKeys = 200
	s := mustOpen(t, Options{bounds: &small})
	seq := uint64(0)
	for round := range 20 {
		for q := range 20 {
			seq++
			mustApply(t, s, seq, 0, plainCreate("a", fmt.Sprintf("t%d", q), 1, 5))
		}
		mustCommit(t, s)
		if s.windows.keys > small.windowKeys {
			t.Fatalf("the windows hold %d keys after %d rounds", s.windows.keys, round)
		}
	}
	for want := range 400 { // and forget nothing
		seq++
		c := mustApply(t, s, seq, 0, plainClaim("r", 1)).(*Claimed)
		if c.Jobs() != 1 || c.Runs[0].Batch != uint64(want+1) {
			t.Fatalf("claim %d took %v", want, c.Runs)
		}
	}
}
