package store

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// BenchmarkPreferDistinct claims and completes single jobs of 100,000 users, each of whom has a batch of ten, while 64
// claims are open. It compares strategies of prefer_distinct with base strategies. It replaces each completed job by a
// batch of one job of a different user. The first claim and the ticks that build the index are measured separately.
func BenchmarkPreferDistinct(b *testing.B) {
	const users, each, open = 100_000, 10, 64
	of := func(base job.Strategy, keys ...string) job.Strategy {
		for _, key := range keys {
			base = mustDistinct(key, base)
		}
		return base
	}
	for _, strategy := range []job.Strategy{
		job.Oldest, job.Newest, job.Random, job.Fair,
		of(job.Oldest, "user"), of(job.Newest, "user"), of(job.Random, "user"), of(job.Fair, "user"),
		of(job.Oldest, "region"), of(job.Oldest, "user", "region"), of(job.Oldest, "region", "user"), of(job.Random, "region", "user"), of(job.Oldest, "none"),
	} {
		for _, max := range []int{1, 100} {
			b.Run(fmt.Sprintf("max=%d/strategy=%s", max, strings.ReplaceAll(strategy.String(), "/", ",")), func(b *testing.B) {
				n := newBench(b)
				c := benchCreate("a", "x", each)
				for user := range users {
					c.Groups[0].Meta = userMeta(user)
					n.Apply(c)
				}
				n.commit()
				claim := plainClaim("r1", max)
				claim.Strategy = strategy
				before := heapBytes()
				began := time.Now()
				n.Apply(claim)
				first := time.Since(began)
				ticks, longest := 0, time.Duration(0)
				for slices.ContainsFunc(n.s.machine.Distinct.List, func(x *memory.DistinctIndex) bool { return x.Stage != row.InLine }) {
					_, took := n.timed(job.Tick{})
					if ticks++; took > longest {
						longest = took
					}
					n.commitFull()
				}
				n.commit()
				memory := heapBytes() - before
				var times claimTimes
				var held []*applied.Claimed
				c = benchCreate("a", "x", max)
				jobs, began := 0, time.Now()
				for i := 0; b.Loop(); i++ {
					got, took := n.timed(claim)
					times = append(times, took)
					held = append(held, got.(*applied.Claimed))
					jobs += held[len(held)-1].Jobs()
					if len(held) > open {
						n.Apply(job.Complete{Claim: held[0].Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
						held = held[1:]
					}
					c.Groups[0].Meta = userMeta(i * 97 % users)
					n.Apply(c)
				}
				b.ReportMetric(float64(jobs)/time.Since(began).Seconds(), "jobs/s")
				b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
				b.ReportMetric(float64(ticks), "ticks")
				b.ReportMetric(float64(longest.Microseconds())/1000, "tick-ms")
				b.ReportMetric(float64(memory)/(1<<20), "MiB")
				times.report(b)
			})
		}
	}
}

// userMeta is the meta of the jobs of a user, who lives in one of ten regions.
func userMeta(user int) job.Meta {
	return job.Meta(fmt.Sprintf("region=r%d,user=u%06d", user%10, user))
}

func heapBytes() int64 {
	for range 3 { // what was in a pool, or has a finalizer, is removed one or two cycles later
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
