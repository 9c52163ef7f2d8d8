package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/daybookq/daybook/bench/rig"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/testkit"
)

// BenchmarkWaitingRunners creates jobs over HTTP while each runner waits for one job. A runner completes its job, and
// waits again. Each of four producers creates a job when one has ended. The benchmark reports the jobs per second, the
// server's processor time for a job, and the time from a job's create until its runner has it.
func BenchmarkWaitingRunners(b *testing.B) {
	const producers = 4
	for _, runners := range []int{4, 200, 600} {
		b.Run(fmt.Sprintf("runners=%d", runners), func(b *testing.B) {
			s := serve(b, "--log-level", "error") // when the server stops, it refuses the waiting claims
			l := NewLoad(s.URL(), producers+runners)
			defer l.Close()
			ctx, end := context.WithCancel(b.Context())
			times := load.NewLatencies()
			ended := make(chan struct{}, producers)
			var working sync.WaitGroup
			for i := range runners {
				working.Go(func() {
					as := l.As(fmt.Sprintf("runner-%d", i))
					for ctx.Err() == nil {
						if err := as.workOne(ctx, times, ended); err != nil && ctx.Err() == nil {
							b.Error(err)
							return
						}
					}
				})
			}
			before := testkit.Must(rig.ProcessorTime(s.Pid()))(b)
			b.ResetTimer()
			testkit.Check(b, load.Share(ctx, producers, b.N, func(ctx context.Context, _ int) error {
				err := l.CreateBody(ctx, fmt.Appendf(nil, `{"type":"waiting","payload":%d}`, time.Now().UnixNano()))
				if err == nil {
					<-ended
				}
				return err
			}))
			b.StopTimer()
			after := testkit.Must(rig.ProcessorTime(s.Pid()))(b)
			end()
			working.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "server-µs/job")
			b.ReportMetric(float64(times.Quantile(0.5).Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(times.Quantile(0.99).Microseconds())/1000, "p99-ms")
		})
	}
}

// workOne waits for a job, whose payload is the time of its create, and completes it.
func (l *Load) workOne(ctx context.Context, times *load.Latencies, ended chan<- struct{}) error {
	var got struct {
		ClaimID string `json:"claim_id"`
		Jobs    []struct {
			Payload int64 `json:"payload"`
		} `json:"jobs"`
	}
	body := fmt.Appendf(nil, `{"runner_id":%q,"max":1,"types":["waiting"],"wait_ms":30000}`, l.Runner)
	err := l.post(ctx, "/jobs/claim", "application/json", body, func(status int, answer []byte) error {
		if status == http.StatusNoContent {
			return nil
		}
		if err := expect(http.StatusOK)(status, answer); err != nil {
			return err
		}
		return json.Unmarshal(answer, &got)
	})
	if err != nil || len(got.Jobs) == 0 {
		return err
	}
	times.Add(time.Duration(time.Now().UnixNano() - got.Jobs[0].Payload))
	if err = l.Complete(ctx, got.ClaimID); err == nil {
		ended <- struct{}{}
	}
	return err
}
