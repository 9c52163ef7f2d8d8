package store

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/daybookq/daybook/job"
)

// distinctCreate returns a create of one job of each of some users, who live in ten regions.
func distinctCreate(users ...int) *job.Create {
	c := benchCreate("a", "x", len(users))
	group := c.Groups[0]
	group.Lines = 1
	c.Groups = c.Groups[:0]
	for _, user := range users {
		group.Meta = job.Meta(fmt.Sprintf("region=r%d,user=u%06d", user%10, user))
		c.Groups = append(c.Groups, group)
	}
	return c
}

// BenchmarkPreferDistinct claims and completes single jobs of 100,000 users, of which each has ten waiting jobs, while 64 claims
// are open. It compares strategies of prefer_distinct with their base strategies.
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
		of(job.Oldest, "region"), of(job.Oldest, "user", "region"), of(job.Oldest, "region", "user"), of(job.Oldest, "none"),
	} {
		b.Run(fmt.Sprintf("strategy=%v", strategy), func(b *testing.B) {
			n := newBench(b)
			for from := range users * each / 1000 {
				list := make([]int, 1000)
				for i := range list {
					list[i] = (from*1000 + i) % users
				}
				n.apply(distinctCreate(list...))
			}
			n.commit()
			claim := plainClaim("r1", 1)
			claim.Strategy = strategy
			before := heapBytes()
			began := time.Now()
			n.apply(claim)
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-ms")
			b.ReportMetric(float64(heapBytes()-before)/(1<<20), "MiB")
			var times claimTimes
			var held []*Claimed
			creates := make([]*job.Create, 1000) // those that made the completed jobs again
			for i := range creates {
				creates[i] = distinctCreate(i * 97 % users)
			}
			jobs, began := 0, time.Now()
			for i := 0; b.Loop(); i++ {
				c, took := n.timed(claim)
				times = append(times, took)
				held = append(held, c.(*Claimed))
				if len(held) > open {
					n.apply(job.Complete{Claim: held[0].Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
					held = held[1:]
				}
				n.apply(creates[i%len(creates)])
				jobs++
			}
			b.ReportMetric(float64(jobs)/time.Since(began).Seconds(), "jobs/s")
			times.report(b)
		})
	}
}

func heapBytes() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkBuildDistinct builds the index of a strategy when a million groups wait: how long Apply stands still.
func BenchmarkBuildDistinct(b *testing.B) {
	const groups = 1_000_000
	for _, perBatch := range []int{1, 1000} {
		for _, values := range []int{1000, 100_000, groups} {
			b.Run(fmt.Sprintf("groups-of-a-batch=%d/values=%d", perBatch, values), func(b *testing.B) {
				n := newBench(b)
				list := make([]int, perBatch)
				for i := 0; i < groups; i += perBatch {
					for j := range list {
						list[j] = (i + j) % values
					}
					n.apply(distinctCreate(list...))
				}
				n.commit()
				if err := n.s.FlushWait(); err != nil {
					b.Fatal(err)
				}
				var x *distinctIndex
				before := heapBytes()
				for b.Loop() {
					x = n.s.machine.buildDistinct(mustDistinct("user", job.Oldest))
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/build")
				b.ReportMetric(float64(heapBytes()-before)/(1<<20), "MiB")
				b.ReportMetric(0, "ns/op")
				runtime.KeepAlive(x)
			})
		}
	}
}
