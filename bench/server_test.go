package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/daybookq/daybook/client/daybooktest"
	"github.com/daybookq/daybook/internal/load"
	"github.com/daybookq/daybook/internal/load/works"
	"github.com/daybookq/daybook/internal/testkit"
)

// serve starts the real binary on a new data directory until the benchmark ends.
func serve(b testing.TB, args ...string) *daybooktest.Process {
	b.Helper()
	return serveTLS(b, nil, args...)
}

// serveTLS is serve with the settings of clients if args make the server speak TLS.
func serveTLS(b testing.TB, secure *tls.Config, args ...string) *daybooktest.Process {
	b.Helper()
	binary := testkit.Must(daybooktest.Binary())(b)
	s := &daybooktest.Process{Binary: binary, Data: b.TempDir(), Args: append([]string{"--log-level", "warn"}, args...), Log: os.Stderr, TLS: secure}
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
	testkit.NoError(b, load.Share(context.Background(), fillers, n, func(ctx context.Context, _ int) error { return l.Add(ctx, body) }))
	testkit.Must(applied(context.Background(), l))(b)
}

// drain claims up to size jobs at a time and completes them, from callers goroutines, until all jobs are done. It returns the time
// that this took.
func drain(b testing.TB, l *Load, callers, size, jobs int) time.Duration {
	b.Helper()
	began := time.Now()
	testkit.NoError(b, load.Share(context.Background(), callers, jobs/size, func(ctx context.Context, _ int) error {
		claim, err := l.Claim(ctx, size)
		if err == nil && claim == "" {
			err = errDry
		}
		if err != nil {
			return err
		}
		return l.Complete(ctx, claim)
	}))
	return time.Since(began)
}

var errDry = errors.New("the queue ran dry")
