package serve

import (
	"math"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestDivideFiles: each part gets at least its minimum, and all together get at most the limit.
func TestDivideFiles(t *testing.T) {
	for _, c := range []struct {
		limit                     uint64
		store, blobs, connections int
	}{
		{256, 80, 80, 32}, {320, 88, 80, 88}, {1024, 420, 120, 420}, {4096, 1000, 504, 2528}, {1 << 20, 1000, 512, 16384}, {math.MaxUint64, 1000, 512, 16384},
	} {
		f, err := divideFiles(c.limit)
		if err != nil || f.store != c.store || f.blobs != c.blobs || f.connections != c.connections {
			t.Errorf("%d: %+v, %v", c.limit, f, err)
		}
		if sum := uint64(f.store + f.blobs + f.connections + otherFiles); sum > c.limit {
			t.Errorf("%d: %d are given away", c.limit, sum)
		}
	}
	testkit.Fails(divideFiles(255))(t, "ulimit -n")
}
