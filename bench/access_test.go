package bench

import (
	"crypto/tls"
	"fmt"
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
	took    [2]map[string][]float64 // by point: seconds, and processor time of the server
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
	s := &accessed{name: name, process: serveTLS(b, secure, args...), took: [2]map[string][]float64{{}, {}}}
	s.load = NewLoad(s.process.URL(), 64)
	s.load.HTTP.Transport.(*http.Transport).TLSClientConfig = secure
	b.Cleanup(s.load.Close)
	if withKey {
		s.load.Key = strings.TrimSpace(string(testkit.Must(os.ReadFile(keyFile))(b)))
	}
	return s
}

// BenchmarkAccess compares a server that asks for a key, and one that also speaks TLS, with one that everybody may use. Each round
// of each point is done at all servers, by turns, and the figures are the medians of the ratios to the first server.
func BenchmarkAccess(b *testing.B) {
	servers := []*accessed{newAccessed(b, "open", false, false), newAccessed(b, "key", true, false), newAccessed(b, "tls", true, true)}
	points := map[string]matrix.Point{"creates": creates, "drains": drains, "lifecycles": lifecycles, "stream-creates": streamCreates, "stream-drains": streamDrains, "stream-lifecycles": streamLifecycles}
	work := map[string][]matrix.Workload{}
	for name, p := range points {
		for _, s := range servers {
			w := workload(b, p, s.process, s.load)
			if p.Transport == "stream" {
				streamWork(b, p, s.load, &w)
			} else {
				httpWork(p, s.load, &w)
			}
			work[name] = append(work[name], w)
		}
	}
	for turn := 0; b.Loop(); turn++ {
		for name, p := range points {
			callers := make([]*matrix.Caller, p.Conns)
			for i := range callers {
				callers[i] = &matrix.Caller{Index: i}
			}
			for i := range servers {
				at := (turn + i) % len(servers) // what the one before leaves on the disk and in memory falls on each in turn
				servers[at].round(b, name, &work[name][at], callers)
			}
		}
	}
	for name := range points {
		for _, s := range servers[1:] {
			for i, what := range []string{"speed", "cpu"} {
				var ratios []float64
				for j, base := range servers[0].took[i][name] {
					ratios = append(ratios, s.took[i][name][j]/base)
				}
				ratio := median(ratios)
				if what == "speed" {
					ratio = 1 / ratio
				}
				b.ReportMetric(ratio, fmt.Sprintf("%s-%s-%s", name, s.name, what))
			}
		}
	}
	b.ReportMetric(0, "ns/op") // iterations differ in their work
}

// round does a round of a point.
func (s *accessed) round(b *testing.B, point string, w *matrix.Workload, callers []*matrix.Caller) {
	ctx := b.Context()
	if w.Prepare != nil {
		testkit.NoError(b, w.Prepare(ctx))
	}
	before := testkit.Must(w.Read(ctx))(b)
	began := time.Now()
	testkit.NoError(b, w.Round(ctx, callers))
	s.took[0][point] = append(s.took[0][point], time.Since(began).Seconds())
	after := testkit.Must(w.Read(ctx))(b)
	s.took[1][point] = append(s.took[1][point], (after.CPU - before.CPU).Seconds())
}
