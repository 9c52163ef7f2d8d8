package matrix

import (
	"cmp"
	"slices"
	"testing"
)

// A Layer measures points in environments of type E: an open journal, store or engine, or a server.
type Layer[E any] struct {
	// Open returns an environment with the backlog of the point, which lasts until tb ends.
	Open func(tb testing.TB, p Point) E
	// Measure measures the point. It calls Measure of this package once.
	Measure func(tb testing.TB, p Point, e E)
}

// Benchmark measures each point in a sub-benchmark, and each point once. Points with the same backlog and payload size
// share an environment, because filling it takes long. Points without a backlog do not share theirs.
func (l Layer[E]) Benchmark(b *testing.B, points []Point) {
	for _, group := range groups(points) {
		if group[0].Backlog == 0 {
			for _, p := range group {
				b.Run(p.Name(), func(b *testing.B) { l.Measure(b, p, l.Open(b, p)) })
			}
			continue
		}
		b.Run(group[0].owner(), func(b *testing.B) {
			e := l.Open(b, group[0])
			for _, p := range group {
				b.Run(p.rest(), func(b *testing.B) { l.Measure(b, p, e) })
			}
		})
	}
}

// testedBacklog bounds the backlog in a test.
const testedBacklog = 2000

// Test does a little of the work of each point, so that the benchmarks keep working.
func (l Layer[E]) Test(t *testing.T, points []Point) {
	for _, p := range points {
		t.Run(p.Name(), func(t *testing.T) {
			p.Backlog = min(p.Backlog, testedBacklog)
			l.Measure(t, p, l.Open(t, p))
		})
	}
}

// groups sorts the points into groups that share an environment, and drops duplicates.
func groups(points []Point) (sorted [][]Point) {
	unique := map[Point]bool{}
	points = slices.Clone(points)
	points = slices.DeleteFunc(points, func(p Point) bool {
		again := unique[p]
		unique[p] = true
		return again
	})
	same := func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Backlog, b.Backlog), cmp.Compare(a.Queues, b.Queues), cmp.Compare(min(a.Backlog, a.Size), min(b.Backlog, b.Size)))
	}
	slices.SortStableFunc(points, same)
	for len(points) > 0 {
		n := 1
		for n < len(points) && same(points[0], points[n]) == 0 {
			n++
		}
		sorted = append(sorted, points[:n])
		points = points[n:]
	}
	return sorted
}
