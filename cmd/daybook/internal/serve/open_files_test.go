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
		f := testkit.Must(divideFiles(c.limit))(t)
		testkit.Holds(t, f.store == c.store && f.blobs == c.blobs && f.connections == c.connections, c.limit, f)
		sum := uint64(f.store + f.blobs + f.connections + otherFiles)
		testkit.Holds(t, sum <= c.limit, c.limit, sum, "are given away")
	}
	testkit.Fails(divideFiles(255))(t, "ulimit -n")
}
