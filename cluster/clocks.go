package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/daybookq/daybook/job"
)

const (
	// clocksEvery is the time between two comparisons of the wall clocks.
	clocksEvery = 5 * time.Second
	// clockTolerance is how far the wall clock of a leader may be off the median of all.
	clockTolerance = time.Minute
)

// maintain does what is due from time to time, until ctx is done.
func (c *Cluster) maintain(ctx context.Context) {
	ticks := time.NewTicker(clocksEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			c.dropOldBase()
			c.calls.tidy()
			c.compareClocks(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// compareClocks compares the wall clock of this node with those of the other members. If it is far off and this node leads,
// another node leads from then on, because the leader's clock decides when jobs are due.
func (c *Cluster) compareClocks(ctx context.Context) {
	ahead, clocks := c.clockAhead(ctx)
	c.notes.mu.Lock()
	c.notes.clockAhead = ahead
	c.notes.mu.Unlock()
	if clocks < 3 || ahead.Abs() <= clockTolerance { // of two clocks, nobody knows which one is wrong
		return
	}
	c.o.Logger.Warn("the wall clock of this node is not that of the other nodes; set it right", "ahead", ahead)
	if _, leads := c.Leads(); leads {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		if err := c.HandOver(ctx); err != nil {
			c.o.Logger.Warn("cannot let another node lead", "error", err)
		}
	}
}

// clockAhead returns how far the wall clock of this node is ahead of the median, and the number of the clocks.
func (c *Cluster) clockAhead(ctx context.Context) (ahead time.Duration, clocks int) {
	ctx, cancel := context.WithTimeout(ctx, clocksEvery)
	defer cancel()
	offsets, before := []time.Duration{0}, c.wall()
	c.askOthers(ctx, question{Op: opClock}, func(_ job.Member, r reply, err error) {
		if err == nil {
			between := before.Add(c.wall().Sub(before) / 2)
			offsets = append(offsets, between.Sub(time.UnixMilli(r.Clock)))
		}
	})
	slices.Sort(offsets)
	return offsets[len(offsets)/2], len(offsets)
}
