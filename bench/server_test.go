package bench

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// serve starts the real binary on a new data directory until the benchmark ends.
func serve(b testing.TB, args ...string) *daybooktest.Process {
	b.Helper()
	binary := testkit.Must(daybooktest.Binary())(b)
	s := &daybooktest.Process{Binary: binary, Data: b.TempDir(), Args: append([]string{"--log-level", "warn"}, args...), Log: os.Stderr}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	testkit.NoError(b, s.Start(ctx))
	b.Cleanup(func() { testkit.Check(b, s.Stop()) })
	return s
}

// fill posts n batches of 1000 jobs and waits until they are applied.
func fill(b testing.TB, l *Load, n int) {
	b.Helper()
	body := works.Lines(1000, 100)
	var left atomic.Int64
	left.Store(int64(n))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := l.Add(context.Background(), body); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	for {
		s := testkit.Must(l.Stats(context.Background()))(b)
		if s.Applied >= s.Synced {
			return
		}
	}
}

var errDry = errors.New("the queue ran dry")
