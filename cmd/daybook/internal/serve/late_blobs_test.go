package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookq/daybook/blob"
	"github.com/daybookq/daybook/internal/testkit"
)

// TestLateBlobs: the server starts without blobs if their bucket does not answer, and opens them when it does. A bucket
// that refuses fails the start, but not a later try.
func TestLateBlobs(t *testing.T) {
	away := fmt.Errorf("%w: nobody answers", blob.ErrUnavailable)
	refused := fmt.Errorf("%w: %w", blob.ErrUnavailable, blob.ErrRefused)
	other := errors.New("the directory is locked")
	for name, tt := range map[string]struct {
		tries []error // of the first tries; the next one succeeds
		slow  time.Duration
		want  error // of openLate
		open  bool  // when openLate returns
	}{
		"at once":                         {open: true},
		"refused":                         {tries: []error{refused}, want: blob.ErrRefused},
		"another error":                   {tries: []error{other}, want: other},
		"away":                            {tries: []error{away}},
		"away for long, and then refuses": {tries: []error{away, away, away, away, away, away, refused, other}},
		"slow":                            {slow: openBucketFor + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				b, err := openLate(t.Context(), func(ctx context.Context) (*blob.Store, error) {
					n := int(tries.Add(1))
					select {
					case <-time.After(tt.slow):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					if n <= len(tt.tries) {
						return nil, tt.tries[n-1]
					}
					return blob.OpenDir(ctx, dir, blob.Options{ReserveBytes: 1})
				}, openBucketFor, slog.New(slog.DiscardHandler))
				if tt.want != nil {
					testkit.Holds(t, errors.Is(err, tt.want) && b == nil && tries.Load() == 1, err, "after", tries.Load(), "tries")
					return
				}
				testkit.NoError(t, err)
				store, err := b.Store()
				testkit.Holds(t, (err == nil) == tt.open &&
					(tt.open || errors.Is(err, blob.ErrUnavailable) && store == nil), "at first there is", store, err)
				time.Sleep(time.Duration(len(tt.tries)+1) * reopenAfter)
				synctest.Wait()
				store, err = b.Store()
				testkit.Holds(t, err == nil && store != nil, "after", tries.Load(), "tries", err)
				testkit.Check(t, b.Close())
			})
		})
	}
	t.Run("closed before it is open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, err := openLate(t.Context(), func(context.Context) (*blob.Store, error) { return nil, away }, openBucketFor, slog.New(slog.DiscardHandler))
			testkit.NoError(t, err)
			testkit.Check(t, b.Close())
		})
	})
}
