package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// shortLines returns a create with the largest body that the API accepts, with lines of up to longest bytes.
func shortLines(longest int) *job.Create {
	c := &job.Create{Groups: []job.Group{plainGroup("a", "x", 0)}, Frame: job.LineFrame, Longest: longest}
	random := rand.New(rand.NewPCG(1, 1))
	line := bytes.Repeat([]byte("x"), longest)
	for len(c.Payloads) < job.MaxBodyBytes-longest-1 && c.Groups[0].Lines < job.MaxLines {
		n := longest
		if c.Groups[0].Lines > 0 {
			n = 1 + random.IntN(longest)
		}
		c.Payloads = c.Frame.Append(c.Payloads, line[:n])
		c.Groups[0].Lines++
	}
	return c
}

// BenchmarkCreateOfShortLines applies creates of 8 MiB with lines of different lengths. It measures how much of the
// time the lengths take.
func BenchmarkCreateOfShortLines(b *testing.B) {
	for _, longest := range []int{2, 3, 20} {
		b.Run(fmt.Sprintf("longest=%d", longest), func(b *testing.B) {
			c := shortLines(longest)
			s := newBench(b)
			var check, sizes time.Duration
			for b.Loop() {
				s.Apply(c)
				b.StopTimer()
				s.commit()
				began := time.Now()
				testkit.NoError(b, c.CheckPayloads())
				check += time.Since(began)
				began = time.Now()
				row.EncodeSizes(c.Frame, c.Payloads, c.Lines(), longest)
				sizes += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(float64(c.Lines()), "lines")
			b.ReportMetric(check.Seconds()*1000/float64(b.N), "ms/check")
			b.ReportMetric(sizes.Seconds()*1000/float64(b.N), "ms/sizes")
		})
	}
}

// BenchmarkMeasuredClaim claims a thousand jobs, each of which is a span, from a page of 20,000 lines. One line is
// long, so the claim must measure the payloads that it takes.
func BenchmarkMeasuredClaim(b *testing.B) {
	const lines = 20_000
	c := &job.Create{Groups: []job.Group{plainGroup("a", "x", lines)}, Frame: job.LineFrame, Longest: 20_000}
	for line := range lines {
		n := 1
		if line == 0 {
			n = c.Longest
		}
		c.Payloads = c.Frame.Append(c.Payloads, bytes.Repeat([]byte("x"), n))
	}
	s := newBench(b)
	higher := 9
	var took time.Duration
	claims := 0
	for b.Loop() {
		s.Apply(c)
		batch := job.NewID(s.at, s.seq, 0)
		for line := lines / 2; line < lines; line += 2 {
			s.Apply(job.Patch{Job: batch.WithLine(line), Priority: &higher})
		}
		for range 4 {
			claim := plainClaim("r", job.MaxClaimJobs)
			claim.MaxBytes = 100_000
			began := time.Now()
			testkit.MustEqual(b, s.Apply(claim).(*applied.Claimed).Jobs(), job.MaxClaimJobs)
			took += time.Since(began)
			claims++
		}
		s.commit()
	}
	b.ReportMetric(took.Seconds()*1000/float64(claims), "ms/claim")
}

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
