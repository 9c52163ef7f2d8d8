package cluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/journal"
)

// BenchmarkAppend proposes commands at the leader of three nodes, whose states only count them: 16 callers with 64 KiB each,
// and 64 callers with 1 KiB.
func BenchmarkAppend(b *testing.B) {
	for _, p := range []struct{ callers, bytes int }{{16, 64 << 10}, {64, 1 << 10}} {
		b.Run(fmt.Sprintf("%dx%dKiB", p.callers, p.bytes>>10), func(b *testing.B) {
			members := newMembers(b, 3)
			var lead *member
			testkit.Eventually(b, "a node leads", func() bool {
				at := slices.IndexFunc(members, func(m *member) bool { _, leads := m.log.Leads(); return leads })
				lead = members[max(at, 0)]
				return at >= 0
			})
			bodies := make([][]byte, p.callers)
			for i := range bodies {
				bodies[i] = make([]byte, p.bytes)
				testkit.Must(rand.Read(bodies[i]))(b)
			}
			times := make([]time.Duration, b.N)
			var n atomic.Int64
			b.SetBytes(int64(p.bytes))
			b.ResetTimer()
			testkit.NoError(b, load.Share(b.Context(), p.callers, b.N, func(ctx context.Context, caller int) error {
				began := time.Now()
				answered := make(chan error, 1)
				err := lead.log.Propose(ctx, &journal.Proposal{
					Lane: journal.Bulk, Verb: "note", Body: bodies[caller], Done: func(_ uint64, _ int64, err error) { answered <- err },
				})
				if err == nil {
					err = <-answered
				}
				times[n.Add(1)-1] = time.Since(began)
				return err
			}))
			b.StopTimer()
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
