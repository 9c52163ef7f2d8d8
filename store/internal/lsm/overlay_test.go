package lsm

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/internal/testkit"
)

func mustOpen(t *testing.T) *DB {
	t.Helper()
	d := testkit.Must(Open("test", Options{FS: vfs.NewMem()}))(t)
	t.Cleanup(func() { testkit.Check(t, d.Close()) })
	return d
}

// TestOverlayIsAMap compares the overlay over its database with a map, over random writes, cuts and commits.
func TestOverlayIsAMap(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		random := rand.New(rand.NewPCG(seed, 2))
		d := mustOpen(t)
		o := d.Overlay("")
		model := map[string]string{}
		anyKey := func() string { return fmt.Sprintf("T%02d", random.IntN(40)) }
		for n := range 400 {
			key := anyKey()
			switch random.IntN(12) {
			case 0, 1, 2, 3:
				value := fmt.Sprint(n)
				o.Set(key, []byte(value))
				model[key] = value
			case 4:
				o.Set(key, nil)
				model[key] = ""
			case 5, 6, 7:
				o.Delete(key)
				delete(model, key)
			case 8:
				from, to := key, anyKey()
				if from > to {
					from, to = to, from
				}
				o.DeleteRange(from, to)
				maps.DeleteFunc(model, func(key, _ string) bool { return from <= key && key < to })
			case 9:
				batch := d.pebble.NewBatch()
				testkit.NoError(t, o.flush(batch))
				testkit.NoError(t, batch.Commit(pebble.NoSync))
				testkit.MustHold(t, o.Bytes() == 0 && o.rows.Len() == 0 &&
					len(o.ranges) == 0, "seed", seed, o.Bytes(), "bytes", o.rows.Len(), "rows and", len(o.ranges), "cuts after a flush")
			case 10:
				value, ok := model[key]
				got := o.Get(key)
				testkit.MustHold(t, (got != nil) == ok && string(got) == value, "seed", seed, key, "is", got, "the map has", value, ok)
			case 11:
				from, to, limit := anyKey(), anyKey(), random.IntN(12)
				var want, got []string
				for _, key := range slices.Sorted(maps.Keys(model)) {
					if from <= key && key < to && len(want) <= limit {
						want = append(want, key+"="+model[key])
					}
				}
				o.Scan(from, to, func(key string, value []byte) bool {
					got = append(got, key+"="+string(value))
					return len(got) <= limit
				})
				testkit.MustHold(t, slices.Equal(got, want), "seed", seed, "scan", from, "to", to, got, "the map has", want)
			}
		}
		o.DeleteRange("T", "U")
		batch := d.pebble.NewBatch()
		testkit.NoError(t, o.flush(batch))
		testkit.NoError(t, batch.Commit(pebble.NoSync))
	}
}

func TestFailBecomesAnError(t *testing.T) {
	err := func() (err error) {
		defer Catch(&err)
		Fail("look", nil)
		Fail("look", ErrShortRow)
		return nil
	}()
	testkit.Holds(t, errors.Is(err, ErrDamaged) && err.Error() == "store: look: a row is shorter than its form; "+nextRebuild, err)
	defer func() { testkit.Equal(t, recover(), "another", "catch took what it should") }()
	err = func() (err error) {
		defer Catch(&err)
		panic("another")
	}()
	t.Errorf("%v", err)
}
