package ingest

import (
	"sync"
	"time"
)

// CommandTimes are how long the commands of a verb have held the applier since the start: with those that the start
// applied again, and without their commits, which they share.
type CommandTimes struct {
	Commands uint64
	Total    time.Duration
	Within   [len(CommandBounds)]uint64 // how many took no longer than each of CommandBounds
}

// CommandBounds are the times that commands are counted by.
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

// CommandTimes returns the times of the verbs that were applied since the start.
func (e *Engine) CommandTimes() map[string]CommandTimes {
	e.counters.commands.mu.Lock()
	defer e.counters.commands.mu.Unlock()
	times := make(map[string]CommandTimes, len(e.counters.commands.each))
	for verb, t := range e.counters.commands.each {
		times[verb] = *t
	}
	return times
}
