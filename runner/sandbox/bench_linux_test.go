package sandbox

import (
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkStart starts /bin/true, several at a time. The kind "exec" uses os/exec alone.
func BenchmarkStart(b *testing.B) {
	for _, atATime := range []int{2, 4} {
		b.Run(fmt.Sprintf("%d/exec", atATime), func(b *testing.B) {
			benchmark(b, atATime, func() error { return exec.Command("/bin/true").Run() })
		})
		for _, k := range append([]kind{plain}, kinds...) {
			b.Run(fmt.Sprintf("%d/%s", atATime, k), func(b *testing.B) {
				s := &Sandbox{tree: tree{kind: plain}}
				if k != plain {
					s = ofKind(b, k)
				}
				benchmark(b, atATime, func() error {
					p, err := s.Start(Command{Argv: []string{"/bin/true"}})
					if err == nil {
						_, err = p.Wait()
					}
					return err
				})
			})
		}
	}
}

func benchmark(b *testing.B, atATime int, once func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range atATime {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := once(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "starts/s")
}
