package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// serveNodes starts nodes that share one journal, each with the real binary on a new data directory.
func serveNodes(b testing.TB, n int) (urls []string) {
	b.Helper()
	nodes := &rig.Nodes{Ctx: b.Context(), Dir: b.TempDir(), HTTP: http.DefaultClient, Place: rig.OnLoopback(testkit.Must(daybooktest.Binary())(b))}
	b.Cleanup(func() { testkit.Check(b, nodes.End()) })
	testkit.NoError(b, nodes.Found(n))
	for _, n := range nodes.List {
		urls = append(urls, n.Process.URL())
	}
	return urls
}

// crowd is callers that use all servers by turns.
type crowd []*Load

func newCrowd(b testing.TB, urls []string) (c crowd) {
	for _, url := range urls {
		l := NewLoad(url, 16)
		b.Cleanup(l.Close)
		c = append(c, l)
	}
	return c
}

// rate returns how many jobs a second 16 callers create, 1000 in a request, and how many they then claim and complete, 100
// in a request.
func (c crowd) rate(b testing.TB, jobs int) (created, completed float64) {
	const callers, batch, few = 16, 1000, 100
	body := works.Lines(batch, 100)
	var turn atomic.Int64
	next := func() *Load { return c[int(turn.Add(1))%len(c)] }
	began := time.Now()
	testkit.NoError(b, load.Share(b.Context(), callers, jobs/batch, func(ctx context.Context, _ int) error {
		return patiently(ctx, c[0], func() error { return next().Add(ctx, body) })
	}))
	created = float64(jobs) / time.Since(began).Seconds()
	for _, l := range c {
		testkit.Must(applied(b.Context(), l))(b)
	}
	began = time.Now()
	testkit.NoError(b, load.Share(b.Context(), callers, jobs/few, func(ctx context.Context, _ int) error {
		l := next()
		claim, err := l.Claim(ctx, few)
		if err == nil && claim == "" {
			err = errDry
		}
		if err != nil {
			return err
		}
		return next().Complete(ctx, claim)
	}))
	return created, float64(jobs) / time.Since(began).Seconds()
}

// BenchmarkNodes compares three nodes with one server, by turns. Requests go to all nodes. The nodes, and the load, share the
// processors and the disk of this machine.
func BenchmarkNodes(b *testing.B) {
	jobs := 100_000
	if testing.Short() {
		jobs = 10_000
	}
	one, three := newCrowd(b, []string{serve(b).URL()}), newCrowd(b, serveNodes(b, 3))
	var creates, completions [2][]float64
	for b.Loop() {
		for i, c := range []crowd{one, three} {
			created, completed := c.rate(b, jobs)
			creates[i], completions[i] = append(creates[i], created), append(completions[i], completed)
		}
	}
	for of, rates := range map[string][2][]float64{"created": creates, "completed": completions} {
		var ratios []float64
		for i := range rates[0] {
			ratios = append(ratios, rates[1][i]/rates[0][i])
		}
		b.ReportMetric(median(rates[0]), "one-"+of+"/s")
		b.ReportMetric(median(rates[1]), "three-"+of+"/s")
		b.ReportMetric(median(ratios), of+"-ratio")
	}
	b.ReportMetric(0, "ns/op") // iterations differ in their work
}

// BenchmarkNodesIdle measures single creates at each of three nodes that do nothing else.
func BenchmarkNodesIdle(b *testing.B) {
	creates := 1000
	if testing.Short() {
		creates = 50
	}
	c := newCrowd(b, serveNodes(b, 3))
	took := make([][]float64, len(c))
	for b.Loop() {
		for i, l := range c {
			for range creates {
				began := time.Now()
				testkit.NoError(b, l.Create(b.Context()))
				took[i] = append(took[i], float64(time.Since(began).Microseconds())/1000)
			}
		}
	}
	for i, times := range took {
		slices.Sort(times)
		b.ReportMetric(median(times), fmt.Sprintf("n%d-p50-ms", i+1))
		b.ReportMetric(times[len(times)*99/100], fmt.Sprintf("n%d-p99-ms", i+1))
	}
	b.ReportMetric(0, "ns/op")
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
