package ingest

import (
	"time"

	"github.com/daybookq/daybook/ingest/registry"
)

// Heartbeat notes that a runner is alive; see registry.Registry.Heartbeat. It does not wait for the log, so that runners
// stay alive while the log takes no commands.
func (e *Engine) Heartbeat(id string, info registry.Info, takeover bool) (aliveSince int64, every time.Duration, err error) {
	aliveSince, err = e.runners.Heartbeat(id, info, takeover, e.moment())
	return aliveSince, e.runners.Every(), err
}

// Goodbye notes the clean end of a runner; see registry.Registry.Goodbye.
func (e *Engine) Goodbye(id, instance string) error {
	return e.runners.Goodbye(id, instance, e.moment())
}

// Registered returns what the registry knows of a runner; ok is false if it does not know the runner.
func (e *Engine) Registered(id string) (known registry.Runner, ok bool) {
	return e.runners.Runner(id, e.moment())
}

// AllRegistered returns a page of the runners that the registry knows; see registry.Registry.Runners.
func (e *Engine) AllRegistered(after string, limit int) (list []registry.Runner, more bool) {
	return e.runners.Runners(after, limit, e.moment())
}

func (e *Engine) moment() registry.Moment { return registry.Moment{At: e.log.Now(), Mono: time.Now()} }
