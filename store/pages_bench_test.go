package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
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
