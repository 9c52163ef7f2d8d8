package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// oneWish is how long after a signal further signals belong to the same wish to stop. timeout(1) signals its child and
// then the child's process group, and a closing terminal sends a signal in addition to the shell's.
var oneWish = 500 * time.Millisecond // a test makes it longer

// wishes calls first with the first signal of the first wish, and again with the first signal of the second wish. It
// returns when again has returned or signals is closed.
func wishes(signals <-chan os.Signal, first, again func(os.Signal)) {
	s, ok := <-signals
	if !ok {
		return
	}
	window := time.NewTimer(oneWish)
	defer window.Stop()
	first(s)
	for open := true; open; {
		select {
		case _, ok := <-signals:
			if !ok {
				return
			}
		case <-window.C:
			open = false
		}
	}
	for len(signals) > 0 { // they arrived before this goroutine ran again
		<-signals
	}
	if s, ok := <-signals; ok {
		again(s)
	}
}

// onWishes runs wishes with the named signals, until end is called.
func onWishes(first, again func(os.Signal), names ...os.Signal) (end func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, names...)
	go wishes(signals, first, again)
	return func() {
		signal.Stop(signals)
		close(signals)
	}
}

// endedBy returns the exit code of a process that a signal has ended.
func endedBy(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return exitSignal + int(number)
	}
	return exitError
}

// stopSignals are the signals that request a stop: SIGINT, SIGTERM, and SIGHUP when the terminal is closed, unless
// SIGHUP was ignored when the process started, as with nohup.
func stopSignals() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// untilSignal returns a context that ends at the first of stopSignals. A second wish ends the process at once: the
// sender does not want to wait. SIGPIPE no longer ends the process, since the reader of its log may disappear. The
// process still receives the signal, so that programs that it starts do not ignore it.
func untilSignal(ctx context.Context, log zerolog.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	end := onWishes(func(s os.Signal) {
		log.Info().Stringer("signal", s).Msg("stopping")
		cancel()
	}, func(s os.Signal) {
		log.Warn().Stringer("signal", s).Msg("ended at once")
		os.Exit(endedBy(s))
	}, stopSignals()...)
	return ctx, func() {
		end()
		cancel()
	}
}

// untilInterrupted returns a context that ends at the first of stopSignals. A second wish ends the process.
//
// A closed pipe, for example when Ctrl-C has ended a tee, does not end the process: it still deletes what it has made.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	broken := make(chan os.Signal, 1) // never read: writes return the error
	signal.Notify(broken, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	end := onWishes(func(os.Signal) { cancel() }, func(s os.Signal) { os.Exit(endedBy(s)) }, stopSignals()...)
	return ctx, func() {
		end()
		signal.Stop(broken)
		cancel()
	}
}
