package ingest

import (
	"sync"
	"time"
)

// CommandTimes are the times for which the commands of one verb have occupied the applier since the start, including the
// replay. They exclude commits, which commands share.
type CommandTimes struct {
	Commands uint64
	Total    time.Duration
	Within   [len(CommandBounds)]uint64 // number of commands that took no longer than each of CommandBounds
}

// CommandBounds are the bounds of the histogram.
var CommandBounds = [...]time.Duration{time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second}

// commandTimes are CommandTimes by verb.
type commandTimes struct {
	mu   sync.Mutex
	each map[string]*CommandTimes
}

func (c *commandTimes) add(verb string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.each == nil {
		c.each = map[string]*CommandTimes{}
	}
	t := c.each[verb]
	if t == nil {
		t = &CommandTimes{}
		c.each[verb] = t
	}
	t.Commands++
	t.Total += took
	for i, bound := range CommandBounds {
		if took <= bound {
			t.Within[i]++
		}
	}
}

// CommandTimes returns the times by verb, for the verbs that were applied since the start.
func (e *Engine) CommandTimes() map[string]CommandTimes {
	e.counters.commands.mu.Lock()
	defer e.counters.commands.mu.Unlock()
	times := make(map[string]CommandTimes, len(e.counters.commands.each))
	for verb, t := range e.counters.commands.each {
		times[verb] = *t
	}
	return times
}
