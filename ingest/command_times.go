package ingest

import (
	"maps"
	"sync"
	"time"
)

// CommandTimes are how long the commands of a verb have held the applier since the start: with those that the start
// applied again, and without their commits, which they share.
type CommandTimes struct {
	Commands       uint64
	Total, Longest time.Duration
}

// commandTimes are CommandTimes by verb.
type commandTimes struct {
	mu   sync.Mutex
	each map[string]CommandTimes
}

func (c *commandTimes) add(verb string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.each == nil {
		c.each = map[string]CommandTimes{}
	}
	t := c.each[verb]
	c.each[verb] = CommandTimes{t.Commands + 1, t.Total + took, max(t.Longest, took)}
}

// CommandTimes returns the times of the verbs that were applied since the start.
func (e *Engine) CommandTimes() map[string]CommandTimes {
	e.counters.commands.mu.Lock()
	defer e.counters.commands.mu.Unlock()
	return maps.Clone(e.counters.commands.each)
}
