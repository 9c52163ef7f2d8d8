package store

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
)

// BenchmarkStartWithKeys opens a store with the maximum number of keys, which are in memory, and one without keys. B/key is what
// the heap has more after the start.
func BenchmarkStartWithKeys(b *testing.B) {
	for _, n := range []int{0, job.MaxAccessKeys} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			s := testkit.Must(Open(dir, Options{}))(b)
			testkit.NoError(b, s.Adopt(testJournal))
			for i := range n {
				key := job.Key{Actor: job.Actor{Name: fmt.Sprintf("acme-worker-%05d", i), Scope: job.Scope{Clients: []string{"acme"}}}, Roles: job.RolesOf(job.RoleWorker), RunnerPrefix: "acme-", Generation: 1, Sum: job.KeySum{byte(i), byte(i >> 8), byte(i >> 16), 1}}
				testkit.Must(s.Apply(uint64(i+1), startAt, job.PutDocument{Kind: job.KeyDocument, Name: key.Name, Summary: "worker", Document: key.Document(), If: job.IfNone}))(b)
				if s.CommitDue() {
					testkit.NoError(b, s.Commit())
				}
			}
			testkit.NoError(b, s.Commit())
			testkit.NoError(b, s.Close())
			heap := func() uint64 {
				runtime.GC()
				runtime.GC() // pools of objects are empty after two
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			s = nil // it is not part of what the heap has before
			before := heap()
			for b.Loop() {
				s = testkit.Must(Open(dir, Options{}))(b)
				b.StopTimer()
				if n > 0 {
					b.ReportMetric((float64(heap())-float64(before))/float64(n), "B/key")
				}
				testkit.NoError(b, s.Close())
				b.StartTimer()
			}
		})
	}
}
