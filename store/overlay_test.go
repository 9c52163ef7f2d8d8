package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestOverlayIsAMap compares the overlay over its database with a map, over random writes, cuts and commits.
func TestOverlayIsAMap(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		random := rand.New(rand.NewPCG(seed, 2))
		s := mustOpen(t, Options{})
		o := &s.o
		model := map[string]string{}
		anyKey := func() string { return fmt.Sprintf("T%02d", random.IntN(40)) }
		for n := range 400 {
			key := anyKey()
			switch random.IntN(12) {
			case 0, 1, 2, 3:
				value := fmt.Sprint(n)
				o.set(key, []byte(value))
				model[key] = value
			case 4:
				o.set(key, nil)
				model[key] = ""
			case 5, 6, 7:
				o.del(key)
				delete(model, key)
			case 8:
				from, to := key, anyKey()
				if from > to {
					from, to = to, from
				}
				o.cut(from, to)
				maps.DeleteFunc(model, func(key, _ string) bool { return from <= key && key < to })
			case 9:
				batch := s.db.NewBatch()
				if err := o.flush(batch); err != nil {
					t.Fatal(err)
				}
				if err := batch.Commit(pebble.NoSync); err != nil {
					t.Fatal(err)
				}
				if o.bytes != 0 || o.rows.Len() != 0 || len(o.cuts) != 0 {
					t.Fatalf("seed %d: %d bytes, %d rows and %d cuts after a flush", seed, o.bytes, o.rows.Len(), len(o.cuts))
				}
			case 10:
				value, ok := model[key]
				if got := o.get(key); (got != nil) != ok || string(got) != value {
					t.Fatalf("seed %d: %s is %q, the map has %q, %v", seed, key, got, value, ok)
				}
			case 11:
				from, to, limit := anyKey(), anyKey(), random.IntN(12)
				var want, got []string
				for _, key := range slices.Sorted(maps.Keys(model)) {
					if from <= key && key < to && len(want) <= limit {
						want = append(want, key+"="+model[key])
					}
				}
				o.scan(from, to, func(key string, value []byte) bool {
					got = append(got, key+"="+string(value))
					return len(got) <= limit
				})
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: scan %s to %s: %q, the map has %q", seed, from, to, got, want)
				}
			}
		}
		o.cut("T", "U")
		batch := s.db.NewBatch()
		if err := o.flush(batch); err != nil {
			t.Fatal(err)
		}
		if err := batch.Commit(pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFailBecomesAnError(t *testing.T) {
	err := func() (err error) {
		defer catch(&err)
		fail("look", nil)
		fail("look", errShortRow)
		return nil
	}()
	if !errors.Is(err, ErrDamaged) || err.Error() != "store: look: a row is shorter than its form; "+nextRebuild {
		t.Errorf("%v", err)
	}
	defer func() {
		if recover() != "another" {
			t.Error("catch took what it should not")
		}
	}()
	err = func() (err error) {
		defer catch(&err)
		panic("another")
	}()
	t.Errorf("%v", err)
}
