package container

import (
	"maps"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/task"
)

// Stats counts the work of a runner's containers since it started.
type Stats struct {
	Running      int64            // jobs running now
	Ended        map[string]int64 // runs, by their end: ok, failed, retry, error, or returned to the queue
	Failures     map[string]int64 // runs that did not end ok, by reason
	Steps        map[string]StepStats
	LeftOvers    int64 // removed containers of ended runners
	LogBytes     int64 // bytes printed by containers that have ended
	LogBytesKept int64 // bytes stored as blobs
}

// StepStats counts the executions of one step.
type StepStats struct {
	OK, Failed int64
	Took       time.Duration
}

// Reasons for which runs do not end ok. If a step fails for none of these reasons, the name of the step is the reason.
const (
	becauseRefused    = "refused"     // the payload, the image or its volumes
	becauseTooLarge   = "too_large"   // the input or the workspace
	becauseDiskFull   = "disk_full"   // of the workspaces
	becauseTimeOut    = "time_out"    // of the handler
	becauseMemory     = "memory"      // the container had too little
	becauseExit       = "exit"        // non-zero exit code
	becauseNotAwaited = "not_awaited" // the job was cancelled, its lease was lost, or the runner stops
	becauseEngineAway = "engine_away"
	becauseServerAway = "server_away"
	becauseRegistry   = "registry_away"
	becauseRunner     = "runner" // the runner could not prepare the run
)

// Reasons returns all reasons.
func Reasons() []string {
	return append([]string{becauseRefused, becauseTooLarge, becauseDiskFull, becauseTimeOut, becauseMemory, becauseExit, becauseNotAwaited, becauseEngineAway, becauseServerAway,
		becauseRegistry, becauseRunner}, Steps()...)
}

// Steps returns the steps of a run, in order.
func Steps() []string { return []string{pullImage, pullFileset, create, start, running, pushFileset} }

type counters struct {
	mu sync.Mutex
	n  Stats
}

func (c *counters) change(f func(n *Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n.Ended == nil {
		c.n.Ended, c.n.Failures, c.n.Steps = map[string]int64{}, map[string]int64{}, map[string]StepStats{}
	}
	f(&c.n)
}

// ended counts the end of a run.
func (c *counters) ended(end *task.End, reason string) {
	c.change(func(n *Stats) {
		n.Running--
		code := end.Code
		if end.Unget {
			code = "returned"
		}
		n.Ended[code]++
		if code != "ok" {
			n.Failures[reason]++
		}
	})
}

// step counts a step.
func (c *counters) step(name string, took time.Duration, err error) {
	c.change(func(n *Stats) {
		s := n.Steps[name]
		if err == nil {
			s.OK++
		} else {
			s.Failed++
		}
		s.Took += took
		n.Steps[name] = s
	})
}

// Stats returns the counts until now.
func (e *Engine) Stats() (s Stats) {
	e.counters.change(func(n *Stats) {
		s = *n
		s.Ended, s.Failures, s.Steps = maps.Clone(n.Ended), maps.Clone(n.Failures), maps.Clone(n.Steps)
	})
	s.LogBytes, s.LogBytesKept = e.keeper.Bytes()
	return s
}
