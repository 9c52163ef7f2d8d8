package store

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/job"
)

// BenchmarkPreferDistinct claims and completes single jobs of 100,000 users, of which each has a batch of ten, while 64
// claims are open. It compares strategies of prefer_distinct with base strategies. Each completed job is replaced by a
// batch of one job of another user.
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
					n.apply(c)
				}
				n.commit()
				claim := plainClaim("r1", max)
				claim.Strategy = strategy
				before := heapBytes()
				began := time.Now()
				n.apply(claim)
				first, memory := time.Since(began), heapBytes()-before
				var times claimTimes
				var held []*Claimed
				c = benchCreate("a", "x", max)
				jobs, began := 0, time.Now()
				for i := 0; b.Loop(); i++ {
					got, took := n.timed(claim)
					times = append(times, took)
					held = append(held, got.(*Claimed))
					jobs += held[len(held)-1].Jobs()
					if len(held) > open {
						n.apply(job.Complete{Claim: held[0].Claim, All: &job.Outcome{Code: job.OK, ExitCode: 200, DelayMs: -1}})
						held = held[1:]
					}
					c.Groups[0].Meta = userMeta(i * 97 % users)
					n.apply(c)
				}
				b.ReportMetric(float64(jobs)/time.Since(began).Seconds(), "jobs/s")
				b.ReportMetric(float64(first.Milliseconds()), "first-ms")
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
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkBuildDistinct builds the index of a strategy when a million groups wait: how long Apply stands still.
func BenchmarkBuildDistinct(b *testing.B) {
	const groups = 1_000_000
	for _, perBatch := range []int{1, 1000} {
		for _, values := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("groups-of-a-batch=%d/values=%d", perBatch, values), func(b *testing.B) {
				n := newBench(b)
				c := benchCreate("a", "x", perBatch)
				group := c.Groups[0]
				group.Lines = 1
				for i := 0; i < groups; i += perBatch {
					c.Groups = c.Groups[:0]
					for user := i; user < i+perBatch; user++ {
						group.Meta = userMeta(user % values)
						c.Groups = append(c.Groups, group)
					}
					n.apply(c)
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
