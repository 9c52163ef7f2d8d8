package lsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
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
			testkit.MustEqual(t, w.First(&o), want, "seed", seed, "first")
			testkit.MustHold(t, len(w.keys) <= size.Max &&
				len(w.keys) == size.Keys(), "seed", seed, "the window holds", len(w.keys), "keys of", size.Max, "and counts", size.Keys())
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
			testkit.MustHold(t, slices.Equal(w.keys, known), "seed", seed, "keys", w.keys, "below", w.bound, "(all", w.all, "), the set has", model)
		}
		o.DeleteRange("T", "U")
	}
}

// TestGapsHideNoKey: scans and windows that skip gaps find every live key, whatever was inserted and removed, and
// wherever the gap begins.
func TestGapsHideNoKey(t *testing.T) {
	for seed := uint64(1); seed <= 200; seed++ {
		random := rand.New(rand.NewPCG(seed, 5))
		d := mustOpen(t)
		o := d.Overlay("")
		size := &Windows{Min: 1 + random.IntN(3), Max: 3 + random.IntN(8)}
		keys := 20 + random.IntN(100)
		var model []string
		for i := range keys { // half of them are there at first
			if key := fmt.Sprintf("T%03d", i); random.IntN(2) == 0 {
				o.Set(key, nil)
				model = append(model, key)
			}
		}
		window := StoredWindow(size, "T", "U")
		var gap *Gap
		run := random.IntN(keys) // where keys are removed one after another
		for range 300 {
			key := fmt.Sprintf("T%03d", random.IntN(keys))
			switch n := random.IntN(10); {
			case n < 5:
				run = (run + 1) % keys
				key = fmt.Sprintf("T%03d", run)
			case n < 7 && len(model) > 0:
				key = model[len(model)-1]
			}
			at, there := slices.BinarySearch(model, key)
			if there {
				last := at == len(model)-1
				o.Delete(key)
				model = slices.Delete(model, at, at+1)
				window.Remove(key)
				if gap != nil {
					gap.Remove(key, last)
				}
				if gap == nil || gap.Surpassed() && random.IntN(2) == 0 {
					if gap != nil {
						gap.Close()
					}
					gap = NewGap(size, key, "U")
					window.Pass(gap)
				}
			} else if random.IntN(3) > 0 {
				o.Set(key, nil)
				model = slices.Insert(model, at, key)
				window.Insert(key)
				if gap != nil {
					gap.Insert(key)
				}
			}
			if !gap.Settled() && random.IntN(3) > 0 {
				gap.Settle(&o)
			}
			if random.IntN(20) == 0 {
				testkit.NoError(t, d.Commit(&o))
			}
			from, to := fmt.Sprintf("T%03d", random.IntN(keys)), fmt.Sprintf("T%03d", random.IntN(keys)+1)
			var want, got, down []string
			for _, key := range model {
				if key >= from && key < to {
					want = append(want, key)
				}
			}
			most := 1 + random.IntN(keys)
			gap.Scan(&o, from, max(from, to), func(key string, _ []byte) bool { got = append(got, key); return len(got) < most })
			gap.ScanDown(&o, from, max(from, to), func(key string, _ []byte) bool { down = append(down, key); return len(down) < most })
			backwards := slices.Clone(want)
			slices.Reverse(backwards)
			testkit.MustHold(t, slices.Equal(got, want[:min(most, len(want))]) && slices.Equal(down, backwards[:min(most, len(want))]),
				"seed", seed, "from", from, "to", to, "up to", most, "of", want, "found", got, "and down", down)
			first := ""
			if len(model) > 0 {
				first = model[0]
			}
			testkit.MustEqual(t, window.First(&o), first, "seed", seed, "first")
		}
		o.DeleteRange("T", "U")
	}
}
