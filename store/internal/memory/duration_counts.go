package memory

import (
	"math"
	"sort"
)

// DurationCounts counts jobs by how long they waited or ran. It has both forms of Prometheus histograms: classic
// buckets, and the exponential buckets of a native histogram. Durations are whole milliseconds, as are the times of
// jobs.
type DurationCounts struct {
	SumMs   uint64
	Classic [len(DurationBoundsMs) + 1]uint64 // up to DurationBoundsMs[i] and above the bound before; the last: all longer ones
	// Native[i] counts the native bucket i+FirstNative, which ends at 2^((i+FirstNative)/8) seconds. The ratio between
	// two bounds is 1.09. The last bucket also counts all longer durations.
	Native [NativeBuckets]uint64
	Zero   uint64 // of Native: durations of 0 ms
}

// DurationBoundsMs are the upper bounds of the classic buckets.
var DurationBoundsMs = [...]int64{5, 25, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000}

const (
	// NativeSchema says how fast the bounds of native buckets grow: each bound is 2^(2^-NativeSchema) times the one
	// before.
	NativeSchema = 3
	// FirstNative is the number of the native bucket of one millisecond, the shortest duration other than 0.
	FirstNative = -79
	// lastNative ends at 2^27 seconds: four years.
	lastNative    = 27 << NativeSchema
	NativeBuckets = lastNative - FirstNative + 1
)

// NativeBoundsMs are the upper bounds of the native buckets, rounded down.
var NativeBoundsMs = func() (bounds [NativeBuckets]int64) {
	for i := range bounds {
		key := i + FirstNative
		part := key & (1<<NativeSchema - 1)
		bounds[i] = int64(math.Ldexp(math.Exp2(float64(part)/(1<<NativeSchema)), key>>NativeSchema) * 1000)
	}
	return bounds
}()

// Add counts n jobs with the same duration in milliseconds.
func (d *DurationCounts) Add(ms int64, n uint64) {
	ms = max(ms, 0)
	d.SumMs += uint64(ms) * n
	d.Classic[sort.Search(len(DurationBoundsMs), func(i int) bool { return ms <= DurationBoundsMs[i] })] += n
	if ms == 0 {
		d.Zero += n
		return
	}
	// The last bucket is unbounded.
	d.Native[sort.Search(NativeBuckets-1, func(i int) bool { return ms <= NativeBoundsMs[i] })] += n
}

// Count returns how many jobs there were in all.
func (d *DurationCounts) Count() (n uint64) {
	for _, c := range d.Classic {
		n += c
	}
	return n
}
