package ingest

import (
	"time"

	"github.com/daybookq/daybook/ingest/registry"
)

// Heartbeat records that a runner is alive; see registry.Registry.Heartbeat. It does not wait for the log, so runners
// stay alive while the log takes no commands.
func (e *Engine) Heartbeat(id string, info registry.Info, takeover bool) (aliveSince int64, every time.Duration, err error) {
	aliveSince, err = e.runners.Heartbeat(id, info, takeover, e.moment())
	return aliveSince, e.runners.Every(), err
}

// Goodbye records the clean end of a runner; see registry.Registry.Goodbye.
func (e *Engine) Goodbye(id, instance string) error {
	return e.runners.Goodbye(id, instance, e.moment())
}

// Registered returns the registry's entry for a runner; ok is false if the runner is unknown.
func (e *Engine) Registered(id string) (known registry.Runner, ok bool) {
	return e.runners.Runner(id, e.moment())
}

// AllRegistered returns a page of the registered runners; see registry.Registry.Runners.
func (e *Engine) AllRegistered(after string, limit int) (list []registry.Runner, more bool) {
	return e.runners.Runners(after, limit, e.moment())
}

func (e *Engine) moment() registry.Moment { return registry.Moment{At: e.log.Now(), Mono: time.Now()} }
