package serve

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"

	"github.com/daybookq/daybook/ingest"
)

const (
	// readyEvery is the time between two looks at an engine that is not ready.
	readyEvery = 50 * time.Millisecond
	// startExtension is how long the rest of a start may take. The server requests it again after a third of it:
	// replaying a long journal takes longer than the time-out of the unit.
	startExtension = time.Minute
)

// supervision reports the state of the server to systemd, if a unit of Type=notify has started it. Otherwise it does
// nothing.
//
//	READY=1      when the engine is ready for the first time, as /readyz reports it
//	WATCHDOG=1   each time the figures of the engine could be read, which takes the locks of the journal and the store.
//	             A failed disk does not withhold it, because a restart would not repair the disk
//	STOPPING=1   when the server begins to stop
type supervision struct {
	stats   func() ingest.Stats
	log     zerolog.Logger
	every   time.Duration // between two messages to the watchdog; 0: the unit lacks a watchdog
	running sync.WaitGroup
}

// supervise begins to report. ctx ends when the server begins to stop. The caller calls end when it has stopped.
func (s *serverRun) supervise(ctx context.Context, stats func() ingest.Stats) (end func()) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn().Err(err).Msg("the watchdog of the service manager cannot be served")
	}
	v := &supervision{stats: stats, log: s.log, every: limit / 3}
	figures := stats()
	if !v.send("STATUS=" + statusOf(&figures)) {
		return func() {}
	}
	ended, stop := context.WithCancel(context.WithoutCancel(ctx))
	v.running.Go(func() { v.run(ctx, ended) })
	return func() {
		stop()
		v.running.Wait()
	}
}

// send sends a message, and reports whether systemd receives it.
func (v *supervision) send(message string) bool {
	sent, err := daemon.SdNotify(false, message)
	if err != nil {
		v.log.Warn().Err(err).Str("message", message).Msg("the service manager could not be notified")
	}
	return sent
}

// run reports until the server has ended.
func (v *supervision) run(stopping, ended context.Context) {
	ready, status := false, ""
	var extended, fed time.Time
	every := readyEvery
	for {
		figures := v.stats()
		now := time.Now()
		if !ready && figures.Ready {
			ready = true
			v.send(daemon.SdNotifyReady)
			if every = time.Second; v.every > 0 {
				every = min(every, v.every)
			}
		}
		if !ready && now.Sub(extended) >= startExtension/3 {
			extended = now
			v.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", startExtension.Microseconds()))
		}
		if v.every > 0 && now.Sub(fed) >= v.every {
			fed = now
			v.send(daemon.SdNotifyWatchdog)
		}
		if text := statusOf(&figures); text != status {
			status = text
			v.send("STATUS=" + text)
		}
		select {
		case <-stopping.Done():
			v.stop(ended)
			return
		case <-ended.Done():
			return
		case <-time.After(every):
		}
	}
}

// stop reports that the server stops, and feeds the watchdog until it has stopped. The unit's TimeoutStopSec= bounds
// that.
func (v *supervision) stop(ended context.Context) {
	v.send(daemon.SdNotifyStopping + "\nSTATUS=stopping")
	for v.every > 0 {
		v.send(daemon.SdNotifyWatchdog)
		select {
		case <-ended.Done():
			return
		case <-time.After(v.every):
		}
	}
}

// statusOf returns a line for `systemctl status`.
func statusOf(s *ingest.Stats) string {
	switch {
	case !s.Ready:
		return "not ready: " + s.Reason
	case s.DiskLow:
		return "ready; creates are refused, because disk space is low"
	case s.Stopped:
		return "ready; claims are stopped"
	}
	return "ready"
}
