package store

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// shatteredCreate returns a batch in which each job is a separate span, because neighbours differ in priority.
func shatteredCreate(n int) *job.Create {
	c := benchCreate("a", "x", n)
	c.Groups = nil
	for i := range n {
		g := plainGroup("a", "x", 1)
		g.Priority = 4 + i%2
		c.Groups = append(c.Groups, g)
	}
	return c
}

// BenchmarkSingleStates cancels, redrives, deletes and purges jobs that are each a separate span, as many at a time as
// a tick handles.
func BenchmarkSingleStates(b *testing.B) {
	const jobs = 30_000
	for _, size := range []int{1, 1000} {
		b.Run(fmt.Sprintf("batches of %d", size), func(b *testing.B) {
			n := newBench(b)
			per := map[string]float64{}
			post := func(retention int64) {
				for range jobs / size {
					c := shatteredCreate(size)
					for i := range c.Groups {
						c.Groups[i].RetentionMs = retention
					}
					n.Apply(c)
				}
				n.commit()
				testkit.NoError(b, n.s.FlushWait())
			}
			ticks := func(what string, done func() bool) {
				start, applied := matrix.ProcessorTime(), n.seq
				for !done() {
					n.Apply(job.Tick{})
					n.commit()
				}
				per["cpu-µs/"+what] += float64((matrix.ProcessorTime() - start).Microseconds()) / jobs
				per["jobs/tick-"+what] += jobs / max(1, float64(n.seq-applied))
			}
			for b.Loop() {
				post(1 << 40)
				for _, op := range []job.Op{job.Cancel, job.Redrive, job.Delete} {
					n.Apply(job.Move{Op: op, Client: "a", Type: "x"})
					n.commit()
					ticks(op.String(), func() bool { return n.s.Totals().Sweeps == 0 })
				}
				post(10)
				for n.s.Totals().Counts[job.Pending] > 0 {
					c := n.Apply(plainClaim("r1", 1000)).(*applied.Claimed)
					n.Apply(job.Complete{Claim: c.Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
					n.commit()
				}
				n.at += 1000
				ticks("purge", func() bool { c := n.s.Totals().Counts; return c[job.Completed] == 0 })
			}
			for what, value := range per {
				b.ReportMetric(value/float64(b.N), what)
			}
		})
	}
}

// BenchmarkStart opens a store with 100,000 ready queues.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	open := func() *Store {
		return testkit.Must(Open(dir, Options{Journal: testJournal, FS: vfs.Default}))(b)
	}
	n := &bench{b: b, s: open(), at: startAt}
	for i := range 100 {
		c := benchCreate("a", "x", 1000)
		c.Groups = nil
		for j := range 1000 {
			c.Groups = append(c.Groups, plainGroup(fmt.Sprintf("client%d", i), fmt.Sprintf("type%d", j), 1))
		}
		n.Apply(c)
		n.commit()
	}
	testkit.NoError(b, n.s.FlushWait())
	testkit.NoError(b, n.s.Close())
	for b.Loop() {
		s := open()
		testkit.NoError(b, s.Close())
	}
}
