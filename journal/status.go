package journal

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Status is a snapshot for operators. Reading it never waits for the disk.
type Status struct {
	UUID                    string
	First, Appended, Synced uint64
	LastAt                  int64         // unix ms
	ClockOffset             time.Duration // journal time minus wall time; 0 when the clock is not ours
	Volumes                 int
	Bytes                   int64 // of all volumes

	Records, Marks, Groups uint64 // since Open; Records counts marks too
	BytesWritten           uint64 // of records, since Open
	Syncs                  uint64 // fsyncs of segments; those of directories are counted apart
	DirectorySyncs         uint64
	Waits                  uint64 // proposals that had to wait for room
	InFlightBytes          int64  // both lanes
	InFlightLimit          int64
	SyncLatency            Latency // of the group's fsync

	Failures  uint64    // groups or volumes that could not be written
	Repairs   uint64    // of them, repaired
	Failing   error     // why writes are down now; nil when they are up
	LastError string    // the last failure's text, repaired or not
	LastFault time.Time // when
	Discarded string    // what this start discarded, "" for nothing
}

// Latency sums up durations: a quantile is the upper bound of its bucket, at most 25 % too high.
type Latency struct {
	Count         uint64
	P50, P99, Max time.Duration
}

// stats are the counters of Status.
type stats struct {
	records, marks, groups, bytes atomic.Uint64
	syncs, dirSyncs, waits        atomic.Uint64
	failures, repairs             atomic.Uint64
	syncTime                      latency

	mu        sync.Mutex
	lastError string
	lastFault time.Time
	discarded string
}

func (s *stats) setDiscarded(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded = text
}

func (s *stats) fault(err error) {
	s.failures.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastError, s.lastFault = err.Error(), time.Now()
}

// latency is a histogram of microseconds with four buckets per power of two.
type latency struct {
	buckets [4 * 40]atomic.Uint64
	max     atomic.Int64
}

func (l *latency) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 1))
	l.buckets[min(latencyBucket(us), len(l.buckets)-1)].Add(1)
	for {
		m := l.max.Load()
		if int64(d) <= m || l.max.CompareAndSwap(m, int64(d)) {
			return
		}
	}
}

// latencyBucket numbers us by its highest bit and the two below it.
func latencyBucket(us uint64) int {
	if us < 4 {
		return int(us)
	}
	e := bits.Len64(us) - 3
	return 4*e + int(us>>e)
}

// latencyBound is the first value that no longer falls into bucket i.
func latencyBound(i int) time.Duration {
	us := uint64(i + 1)
	if i >= 8 {
		e := (i - 4) / 4
		us = uint64(i-4*e+1) << e
	}
	return time.Duration(us) * time.Microsecond
}

func (l *latency) read() Latency {
	var counts [len(l.buckets)]uint64
	out := Latency{Max: time.Duration(l.max.Load())}
	for i := range counts {
		counts[i] = l.buckets[i].Load()
		out.Count += counts[i]
	}
	out.P50 = min(quantile(counts[:], (out.Count+1)/2), out.Max)
	out.P99 = min(quantile(counts[:], out.Count-out.Count/100), out.Max)
	return out
}

func quantile(counts []uint64, rank uint64) time.Duration {
	var n uint64
	for i, c := range counts {
		if n += c; c > 0 && n >= rank {
			return latencyBound(i)
		}
	}
	return 0
}

// Status returns a snapshot of the watermarks and counters.
func (j *Journal) Status() Status {
	st := Status{
		UUID: j.uuid, First: j.First(), Synced: j.Synced(), LastAt: j.LastAt(),
		Records: j.stats.records.Load(), Marks: j.stats.marks.Load(), Groups: j.stats.groups.Load(),
		BytesWritten: j.stats.bytes.Load(), Syncs: j.stats.syncs.Load(), DirectorySyncs: j.stats.dirSyncs.Load(),
		Waits: j.stats.waits.Load(), SyncLatency: j.stats.syncTime.read(),
		Failures: j.stats.failures.Load(), Repairs: j.stats.repairs.Load(),
		Failing: j.Health(),
	}
	// Read after synced, which it may never be seen below.
	st.Appended = max(j.Appended(), st.Synced)
	st.ClockOffset = j.ClockOffset()
	j.mu.Lock()
	for i := range j.lanes {
		st.InFlightBytes += j.lanes[i].used
		st.InFlightLimit += j.lanes[i].limit
	}
	j.mu.Unlock()
	j.vmu.Lock()
	st.Volumes = len(j.volumes)
	for i := range j.volumes {
		st.Bytes += j.volumes[i].Bytes
	}
	j.vmu.Unlock()
	j.stats.mu.Lock()
	st.LastError, st.LastFault, st.Discarded = j.stats.lastError, j.stats.lastFault, j.stats.discarded
	j.stats.mu.Unlock()
	return st
}

// Health is nil while writes are accepted; otherwise ErrFailed with the reason, or ErrClosed.
func (j *Journal) Health() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.refusal()
}
