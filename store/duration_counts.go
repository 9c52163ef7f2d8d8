package store

import (
	"math"
	"sort"
)

// DurationCounts says how many jobs waited, or ran, how long. It has both forms of Prometheus histograms: classic
// buckets, and the exponential buckets of a native histogram. Durations are whole milliseconds, as the times of jobs are.
type DurationCounts struct {
	SumMs   uint64
	Classic [len(DurationBoundsMs) + 1]uint64 // Classic[i] counts those up to DurationBoundsMs[i], beyond the bound before; the last one all others
	// Native[i] counts those of the native bucket i+FirstNative, which ends at 2^((i+FirstNative)/8) seconds: a ratio of
	// 1.09 between two bounds. The last one also counts all longer ones.
	Native [nativeBuckets]uint64
	Zero   uint64 // of Native: those of 0 ms
}

// DurationBoundsMs are the upper bounds of the classic buckets.
var DurationBoundsMs = [...]int64{5, 25, 100, 500, 1000, 5000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000}

const (
	// NativeSchema is how the bounds of native buckets follow each other: each is 2^(2^-NativeSchema) times the one
	// before.
	NativeSchema = 3
	// FirstNative is the number of the native bucket of one millisecond, the shortest duration but 0.
	FirstNative = -79
	// lastNative ends at 2^27 seconds: four years.
	lastNative    = 27 << NativeSchema
	nativeBuckets = lastNative - FirstNative + 1
)

// nativeBoundsMs are the upper bounds of the native buckets, rounded down.
var nativeBoundsMs = func() (bounds [nativeBuckets]int64) {
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
	// The last bucket has no end.
	d.Native[sort.Search(nativeBuckets-1, func(i int) bool { return ms <= nativeBoundsMs[i] })] += n
}

// Count returns how many jobs there were in all.
func (d *DurationCounts) Count() (n uint64) {
	for _, c := range d.Classic {
		n += c
	}
	return n
}
