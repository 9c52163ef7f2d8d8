//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestSignalPairs: a pair of signals ends the contexts of commands, and not the process of this test.
func TestSignalPairs(t *testing.T) {
	defer func(usual time.Duration) { oneWish = usual }(oneWish)
	oneWish = time.Hour // the machine may be busy
	for name, until := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"untilInterrupted": untilInterrupted,
		"untilSignal": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := untilSignal(ctx, zerolog.Nop())
			return ctx, end
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := until(t.Context())
			defer end()
			signalSelf(t)
			<-ctx.Done()
			got := make(chan os.Signal, 1)
			signal.Notify(got, syscall.SIGTERM)
			defer signal.Stop(got)
			signalSelf(t)
			<-got // the process goes on
		})
	}
}

func signalSelf(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
