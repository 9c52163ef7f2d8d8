package journal

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Status is a snapshot for operators. Reading it never waits for the disk.
type Status struct {
	UUID string
	Extent
	ClockOffset time.Duration // journal time minus wall time; 0 when Options.Clock is given
	Activity
	Faults
	Discarded string // what this start discarded; "" if nothing
}

// Extent describes the contents of the journal.
type Extent struct {
	First, Appended, Synced uint64
	LastAt                  int64 // unix ms
	Volumes                 int
	Bytes                   int64 // of all volumes
}

// Activity is the work of the journal since Open.
type Activity struct {
	Records, Marks, Groups uint64 // Records includes the marks
	BytesWritten           uint64 // of records
	Syncs                  uint64 // fsyncs of segments
	DirectorySyncs         uint64
	SyncLatency            Latency // of the fsyncs of segments
	Waits                  uint64  // calls of Propose that had to wait for room
	InFlightBytes          int64   // of both lanes, now
	InFlightLimit          int64
}

// Faults are the failed writes since Open.
type Faults struct {
	Failures  uint64    // groups or volumes that could not be written
	Repairs   uint64    // repairs that succeeded
	Failing   error     // why no commands are taken now; nil if they are
	LastError string    // text of the last failure, kept after its repair
	LastFault time.Time // time of the last failure
}

// Latency summarizes durations. P50 and P99 are upper bounds of histogram buckets, so they are up to 25 % too high.
type Latency struct {
	Count         uint64
	P50, P99, Max time.Duration
	Total         time.Duration // the sum of all durations
}

// stats are the counters for Status, since Open.
type stats struct {
	records, marks, groups, bytes atomic.Uint64
	syncs, dirSyncs               atomic.Uint64
	failures, repairs             atomic.Uint64
	syncTime                      latency

	mu        sync.Mutex // guards the fields below
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
	buckets    [4 * 40]atomic.Uint64
	max, total atomic.Int64
}

func (l *latency) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 1))
	l.buckets[min(latencyBucket(us), len(l.buckets)-1)].Add(1)
	l.total.Add(int64(d))
	for {
		m := l.max.Load()
		if int64(d) <= m || l.max.CompareAndSwap(m, int64(d)) {
			return
		}
	}
}

// latencyBucket returns the bucket of a number of microseconds. The highest bit and the two bits below it select the
// bucket.
func latencyBucket(us uint64) int {
	if us < 4 {
		return int(us)
	}
	e := bits.Len64(us) - 3
	return 4*e + int(us>>e)
}

// latencyBound returns the smallest value that is above all values of bucket i.
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
	out := Latency{Max: time.Duration(l.max.Load()), Total: time.Duration(l.total.Load())}
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
		UUID: j.uuid, ClockOffset: j.ClockOffset(),
		Extent: Extent{First: j.First(), Synced: j.Synced(), LastAt: j.LastAt()},
		Activity: Activity{
			Records: j.stats.records.Load(), Marks: j.stats.marks.Load(), Groups: j.stats.groups.Load(),
			BytesWritten: j.stats.bytes.Load(), Syncs: j.stats.syncs.Load(), DirectorySyncs: j.stats.dirSyncs.Load(),
			SyncLatency: j.stats.syncTime.read(), Waits: j.proposals.waits.Load(),
		},
		Faults: Faults{Failures: j.stats.failures.Load(), Repairs: j.stats.repairs.Load(), Failing: j.Health()},
	}
	st.Appended = max(j.Appended(), st.Synced) // read after Synced, because Appended must not be smaller
	st.Volumes, st.Bytes = j.volumes.size()
	st.InFlightBytes, st.InFlightLimit = j.proposals.inFlight()
	j.stats.mu.Lock()
	defer j.stats.mu.Unlock()
	st.LastError, st.LastFault, st.Discarded = j.stats.lastError, j.stats.lastFault, j.stats.discarded
	return st
}
