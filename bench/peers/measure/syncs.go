package measure

import (
	"context"
	"fmt"

	"github.com/daybookq/daybook/bench/peers/process"
	"github.com/daybookq/daybook/internal/load"
)

// syncCalls is how many calls of each kind CountSyncs makes.
const syncCalls = 20

// CountSyncs returns how often a driver's server syncs a file for a call that creates, claims or completes one job, with
// one caller. A server that answers before its files are on disk has less than 1.
func (r *Run) CountSyncs(ctx context.Context, d Driver) (syncs map[string]float64, err error) {
	syncs = map[string]float64{}
	err = r.serve(ctx, d, func(ctx context.Context, s Session) error {
		if !d.Does(CreateOne) {
			return ErrUnsupported
		}
		conns := make([]Conn, syncCalls)
		for i := range conns {
			if conns[i], err = s.Dial(ctx, i); err != nil {
				return err
			}
			defer conns[i].Close()
		}
		calls := []struct {
			name string
			call func(Conn) error
		}{
			{"create", func(c Conn) error { return c.Create(ctx, 1) }},
			{"claim", func(c Conn) error {
				l := &loop{t: &Turn{Latencies: load.NewLatencies()}}
				_, err := l.claim(ctx, c, 1) // some servers hand a job out only a moment after they have acknowledged it
				return err
			}},
			{"complete", func(c Conn) error { return c.Complete(ctx) }},
		}
		if !d.Does(LifecycleOne) {
			calls = calls[:1]
		}
		for _, c := range conns { // the first jobs do not count, since servers do extra work for them
			for _, call := range calls {
				if err := call.call(c); err != nil {
					return fmt.Errorf("%s: %w", call.name, err)
				}
			}
		}
		for _, call := range calls {
			n, err := process.Syncs(ctx, s.Pid(), r.Dir, func() error {
				for _, c := range conns {
					if err := call.call(c); err != nil {
						return fmt.Errorf("%s: %w", call.name, err)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			syncs[call.name] = float64(n) / syncCalls
		}
		return nil
	})
	return syncs, err
}
