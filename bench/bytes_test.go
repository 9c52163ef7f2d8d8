package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// BenchmarkCreateBytes posts 4 MiB of lines in each request from 16 connections, and reports the rate as a part of the
// raw disk's rate. If the server refuses a post because the store has fallen behind, the benchmark sends the post again.
// So the server can sustain the measured rate.
func BenchmarkCreateBytes(b *testing.B) {
	const post, conns = 4 << 20, 16
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			s := serve(b)
			l := NewLoad(s.URL(), conns)
			defer l.Close()
			lines := post / (size + 1)
			body := works.Lines(lines, size)
			payloads := int64(lines * size)
			var refused atomic.Int64
			b.SetBytes(payloads)
			b.ResetTimer()
			testkit.NoError(b, load.Share(context.Background(), conns, b.N, func(ctx context.Context, _ int) error {
				for {
					if err := l.Add(ctx, body); !errors.Is(err, errOverloaded) {
						return err
					}
					refused.Add(1)
					time.Sleep(10 * time.Millisecond)
				}
			}))
			b.StopTimer()
			rate := float64(payloads) * float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate/diskRate(b, post, b.N), "×disk")
			b.ReportMetric(float64(refused.Load())/float64(b.N), "refused/post")
		})
	}
}

// diskRate writes and syncs n blocks one after the other to a plain file, and returns the bytes per second.
func diskRate(b *testing.B, block, n int) float64 {
	b.Helper()
	file := testkit.Must(os.Create(filepath.Join(b.TempDir(), "plain")))(b)
	defer file.Close()
	data := works.Lines(1, block)[:block]
	began := time.Now()
	for range n {
		testkit.Must(file.Write(data))(b)
		testkit.NoError(b, file.Sync())
	}
	return float64(block) * float64(n) / time.Since(began).Seconds()
}
