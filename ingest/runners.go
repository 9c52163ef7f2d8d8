package ingest

import (
	"context"
	"time"

	"github.com/daybookq/daybook/ingest/registry"
)

// Heartbeat records that a runner is alive; see registry.Registry.Heartbeat. It does not wait for the log, so runners
// stay alive while the log takes no commands. In a cluster, the leader keeps the registry: this method and the
// following ones are carried out there.
func (e *Engine) Heartbeat(ctx context.Context, id string, info registry.Info, takeover bool) (aliveSince int64, every time.Duration, err error) {
	r, err := e.atLeader(ctx, errand{Heartbeat: &heartbeatErrand{id, info, takeover, e.ownerOf(ctx).Client}})
	return r.Since, e.runners.Every(), err
}

// Goodbye records the clean end of a runner; see registry.Registry.Goodbye.
func (e *Engine) Goodbye(ctx context.Context, id, instance string) error {
	_, err := e.atLeader(ctx, errand{Goodbye: &goodbyeErrand{id, instance}})
	return err
}

// Registered returns the registry's entry for a runner; ok is false if the runner is unknown.
func (e *Engine) Registered(ctx context.Context, id string) (known registry.Runner, ok bool, err error) {
	r, err := e.atLeader(ctx, errand{Runner: &id})
	if err != nil || len(r.Runners) == 0 {
		return known, false, err
	}
	return r.Runners[0], true, nil
}

// AllRegistered returns a page of the registered runners; see registry.Registry.Runners.
func (e *Engine) AllRegistered(ctx context.Context, after string, limit int) (list []registry.Runner, more bool, err error) {
	r, err := e.atLeader(ctx, errand{Runners: &pageOf{after, limit}})
	return r.Runners, r.More, err
}

func (e *Engine) moment() registry.Moment { return registry.Moment{At: e.log.Now(), Mono: time.Now()} }
