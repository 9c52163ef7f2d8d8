package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/matrix"
	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/testkit"
)

// used is the processor time that each side has used.
type used struct{ server, load time.Duration }

// processorTime returns the processor time that the server, and this process, have used so far.
func processorTime(b *testing.B, s *daybooktest.Process) used {
	b.Helper()
	server := testkit.Must(rig.ProcessorTime(s.Pid()))(b)
	return used{server, matrix.ProcessorTime()}
}

// BenchmarkClaimForms claims and completes 100 jobs at a time, with claims in JSON and in runs, in turns. The load reads
// only the claim_id. So the ratio compares the costs of the two forms for the server and the network.
func BenchmarkClaimForms(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprintf("max=%d", size), func(b *testing.B) {
			const callers, batches = 16, 100
			s := serve(b)
			l := NewLoad(s.URL(), callers)
			defer l.Close()
			forms := []struct {
				name string
				load *Load
				took time.Duration
				used used
			}{{name: "json", load: l}, {name: "runs", load: l.InRuns()}}
			for i := range forms {
				drainInLoop(b, forms[i].load, callers, size, batches*1000)
			}
			for b.Loop() {
				for i := range forms {
					f := &forms[i]
					fill(b, l, batches)
					before := processorTime(b, s)
					f.took += drain(b, f.load, callers, size, batches*1000)
					after := processorTime(b, s)
					f.used.server += after.server - before.server
					f.used.load += after.load - before.load
				}
			}
			jobs := float64(b.N * batches * 1000)
			for _, f := range forms {
				b.ReportMetric(jobs/f.took.Seconds(), f.name+"-jobs/s")
				b.ReportMetric(f.used.server.Seconds()*1e6/jobs, f.name+"-server-µs/job")
				b.ReportMetric(f.used.load.Seconds()*1e6/jobs, f.name+"-load-µs/job")
			}
			b.ReportMetric(forms[0].took.Seconds()/forms[1].took.Seconds(), "runs-of-json")
		})
	}
}
