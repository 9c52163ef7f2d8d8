package terminal

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

// OnWishes runs wishes with the named signals, until end is called.
func OnWishes(first, again func(os.Signal), names ...os.Signal) (end func()) {
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
		return ExitSignal + int(number)
	}
	return ExitError
}

// StopSignals are the signals that request a stop: SIGINT, SIGTERM, and SIGHUP when the terminal is closed, unless
// SIGHUP was ignored when the process started, as with nohup.
func StopSignals() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
}

// UntilSignal returns a context that ends at the first of the signals. A second wish ends the process at once: the
// sender does not want to wait. SIGPIPE no longer ends the process, since the reader of its log may disappear. The
// process still receives the signal, so that programs that it starts do not ignore it.
func UntilSignal(ctx context.Context, log zerolog.Logger, signals ...os.Signal) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	end := OnWishes(func(s os.Signal) {
		log.Info().Stringer("signal", s).Msg("stopping")
		cancel()
	}, func(s os.Signal) {
		log.Warn().Stringer("signal", s).Msg("ended at once")
		End(endedBy(s))
	}, signals...)
	return ctx, func() {
		end()
		cancel()
	}
}

// UntilInterrupted returns a context that ends at the first of StopSignals. A second wish ends the process.
//
// A closed pipe, for example when Ctrl-C has ended a tee, does not end the process: it still deletes what it has made.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	broken := make(chan os.Signal, 1) // never read: writes return the error
	signal.Notify(broken, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	end := OnWishes(func(os.Signal) { cancel() }, func(s os.Signal) { End(endedBy(s)) }, StopSignals()...)
	return ctx, func() {
		end()
		signal.Stop(broken)
		cancel()
	}
}
