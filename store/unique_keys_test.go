package store

import (
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// BenchmarkReusedUniqueKey creates a job with the same unique key again and again, claims it and completes it, which
// deletes it. The time of a cycle must not grow with the number of cycles before it. µs/first and µs/last are the times
// of the first and the last tenth.
func BenchmarkReusedUniqueKey(b *testing.B) {
	n := newBench(b)
	create := plainCreate("a", "x", 1, 5)
	create.Groups[0].RetentionMs = 0
	create.Unique = []job.UniqueKey{{Line: 0, Key: "the same"}}
	const cycles = 100_000
	part := func() time.Duration {
		began := time.Now()
		for range cycles / 10 {
			n.Apply(create)
			n.commit()
			testkit.MustEqual(b, n.finish(1), 1, "no job")
			n.commit()
		}
		return time.Since(began) / (cycles / 10)
	}
	for b.Loop() {
		first := part()
		for range 8 {
			part()
		}
		last := part()
		b.ReportMetric(float64(first.Nanoseconds())/1000, "µs/first")
		b.ReportMetric(float64(last.Nanoseconds())/1000, "µs/last")
	}
}

// TestReusedUniqueKeyIsNotReadAgain: the row of a key that is used again and again has many versions, and a read would
// walk over them.
func TestReusedUniqueKeyIsNotReadAgain(t *testing.T) {
	s := mustOpen(t, Options{})
	create := plainCreate("a", "x", 1, 5)
	create.Groups[0].RetentionMs = 0
	create.Unique = []job.UniqueKey{{Line: 0, Key: "the same"}}
	seq := uint64(0)
	next := func() uint64 { seq++; return seq }
	for cycle := range 3 {
		before := s.machine.O.Work().Reads
		mustApply(t, s, next(), 0, create)
		if after := s.machine.O.Work().Reads; cycle > 0 && after > before {
			t.Errorf("cycle %d: the create read %d rows", cycle, after-before)
		}
		mustCommit(t, s)
		seq = lifecycle(t, s, seq+1, 0, "r", 1) - 1
		mustCommit(t, s)
	}
	testkit.Equal(t, rowsOf(t, s, row.UniqueTable), 0)
}
