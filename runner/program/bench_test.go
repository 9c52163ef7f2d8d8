package program

import (
	"bytes"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
)

// BenchmarkRun runs jobs with cat, several at a time: with a handler of kind exec, with one without a sandbox, and with
// os/exec alone.
func BenchmarkRun(b *testing.B) {
	payload := []byte("payload")
	handlerOf := func(b *testing.B, mode sandbox.Mode) func() error {
		s := testkit.Must(sandbox.New(mode))(b)
		e := testkit.Must(New(s, Settings{Argv: []string{"cat"}}, handler.Options{}))(b)
		return func() error {
			batch := newBatch(b.Context(), string(payload))
			if end := batch.run(b, e)[0]; !bytes.Equal(end.Output, payload) {
				return fmt.Errorf("%+v", end)
			}
			return nil
		}
	}
	for _, atATime := range []int{2, 4} {
		for _, c := range []struct {
			name string
			run  func(*testing.B) func() error
		}{
			{"os/exec", func(*testing.B) func() error {
				return func() error {
					cmd := exec.Command("cat")
					var errs bytes.Buffer
					cmd.Stdin, cmd.Stderr = bytes.NewReader(payload), &errs
					_, err := cmd.Output()
					return err
				}
			}},
			{"off", func(b *testing.B) func() error { return handlerOf(b, sandbox.Off) }},
			{"sandbox", func(b *testing.B) func() error { return handlerOf(b, sandbox.Auto) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, atATime), func(b *testing.B) {
				run := c.run(b)
				b.ResetTimer()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				for range atATime {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := run(); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}
