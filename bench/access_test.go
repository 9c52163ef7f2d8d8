package bench

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// accessed is a server beside the others of BenchmarkAccess, with its load.
type accessed struct {
	name    string
	process *daybooktest.Process
	load    *Load
	work    matrix.Workload
	took    [2][]float64 // by round: seconds, and processor time of the server
}

// newAccessed starts a server with a flag that makes it ask for a key, and with TLS.
func newAccessed(b *testing.B, name string, withKey, withTLS bool) *accessed {
	keyFile := filepath.Join(b.TempDir(), "admin.key")
	var args []string
	if withKey {
		args = append(args, "--admin-key-file", keyFile)
	}
	var secure *tls.Config
	if withTLS {
		a := testkit.NewAuthority(b)
		cert, key := a.Issue(b, "server")
		args = append(args, "--tls-cert", cert, "--tls-key", key)
		secure = &tls.Config{RootCAs: a.Pool}
	}
	s := &accessed{name: name, process: serveTLS(b, secure, args...)}
	s.load = NewLoad(s.process.URL(), 64)
	s.load.HTTP.Transport.(*http.Transport).TLSClientConfig = secure
	b.Cleanup(s.load.Close)
	if withKey {
		s.load.Key = strings.TrimSpace(string(testkit.Must(os.ReadFile(keyFile))(b)))
	}
	return s
}

// BenchmarkAccess compares a server that asks for a key, and one that also speaks TLS, with one that everybody may use. Each round
// of a work is done at all three, by turns, and the figures are the medians of the ratios to the first server. Each work has
// servers of its own, because what other works leave in memory differs from server to server.
func BenchmarkAccess(b *testing.B) {
	for _, work := range []struct {
		name  string
		point matrix.Point
	}{
		{"creates", creates},
		{"drains", drains},
		{"lifecycles", lifecycles},
		{"stream-creates", streamCreates},
		{"stream-creates-of-16", outstanding(16, streamCreates)},
		{"stream-drains", streamDrains},
		{"stream-lifecycles", streamLifecycles},
		{"stream-lifecycles-of-16", outstanding(16, streamLifecycles)},
	} {
		b.Run(work.name, func(b *testing.B) { benchmarkAccess(b, work.point) })
	}
}

// outstanding returns a point of streams in which each of 16 streams has several outstanding jobs.
func outstanding(jobs int, p matrix.Point) matrix.Point {
	p.Conns, p.Batch = 16, jobs
	return p
}

func benchmarkAccess(b *testing.B, p matrix.Point) {
	servers := []*accessed{newAccessed(b, "open", false, false), newAccessed(b, "key", true, false), newAccessed(b, "tls", true, true)}
	for _, s := range servers {
		s.work = workload(b, p, s.process, s.load)
		if p.Transport == "stream" {
			streamWork(b, p, s.load, &s.work)
		} else {
			httpWork(p, s.load, &s.work)
		}
	}
	for turn := 0; b.Loop(); turn++ {
		callers := make([]*matrix.Caller, p.Conns)
		for i := range callers {
			callers[i] = &matrix.Caller{Index: i}
		}
		for i := range servers {
			servers[(turn+i)%len(servers)].round(b, callers) // what the one before leaves on the disk falls on each in turn
		}
	}
	for _, s := range servers[1:] {
		for i, what := range []string{"speed", "cpu"} {
			ratios := make([]float64, len(s.took[i]))
			for round, took := range s.took[i] {
				ratios[round] = took / servers[0].took[i][round]
			}
			ratio := median(ratios)
			if what == "speed" {
				ratio = 1 / ratio
			}
			b.ReportMetric(ratio, s.name+"-"+what)
		}
	}
	b.ReportMetric(0, "ns/op") // rounds differ in their work
}

// round does a round of the work.
func (s *accessed) round(b *testing.B, callers []*matrix.Caller) {
	ctx := b.Context()
	if s.work.Prepare != nil {
		testkit.NoError(b, s.work.Prepare(ctx))
	}
	before := testkit.Must(s.work.Read(ctx))(b)
	began := time.Now()
	testkit.NoError(b, s.work.Round(ctx, callers))
	s.took[0] = append(s.took[0], time.Since(began).Seconds())
	after := testkit.Must(s.work.Read(ctx))(b)
	s.took[1] = append(s.took[1], (after.CPU - before.CPU).Seconds())
}
