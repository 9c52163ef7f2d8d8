//go:build unix

package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/internal/testkit"
)

// TestSignalPairs: a pair of signals ends the contexts of commands, and not the process of this test.
func TestSignalPairs(t *testing.T) {
	defer func(usual time.Duration) { oneWish = usual }(oneWish)
	oneWish = time.Hour // the machine may be busy
	for name, until := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"untilInterrupted": UntilInterrupted,
		"untilSignal": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := UntilSignal(ctx, zerolog.Nop(), StopSignals()...)
			return ctx, end
		},
	} {
		for _, first := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
			t.Run(name+" "+first.String(), func(t *testing.T) {
				if signal.Ignored(first) {
					t.Skipf("%v is ignored, as under nohup, and stays so", first)
				}
				ctx, end := until(t.Context())
				defer end()
				got := make(chan os.Signal, 1)
				signal.Notify(got, first, syscall.SIGTERM) // a signal that the context does not wait for does not end the test
				defer signal.Stop(got)
				signalSelf(t, first)
				<-got
				testkit.Eventually(t, "the context ends", func() bool { return ctx.Err() != nil })
				signalSelf(t, syscall.SIGTERM)
				<-got // the process continues
			})
		}
	}
}

func signalSelf(t *testing.T, s syscall.Signal) {
	t.Helper()
	testkit.NoError(t, syscall.Kill(os.Getpid(), s))
}
