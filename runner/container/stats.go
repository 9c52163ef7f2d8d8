package container

import (
	"maps"
	"sync"
	"time"

	"github.com/daybookq/daybook/runner/task"
)

// Stats are what the containers of a runner have done since it started.
type Stats struct {
	Running      int64            // jobs whose run is under way
	Ended        map[string]int64 // runs, by how they ended: ok, failed, retry, error, or returned to the queue
	Failures     map[string]int64 // runs that did not end ok, by reason
	Steps        map[string]StepStats
	LeftOvers    int64 // containers of ended runners that were removed
	LogBytes     int64 // that containers have printed which have ended
	LogBytesKept int64 // that were stored as blobs
}

// StepStats are what a step of the runs has taken.
type StepStats struct {
	OK, Failed int64
	Took       time.Duration
}

// The reasons for which runs do not end ok. A step that fails for no other reason is one, too.
const (
	becauseRefused    = "refused"     // the payload, the image or its volumes
	becauseTooLarge   = "too_large"   // the input or the workspace
	becauseDiskFull   = "disk_full"   // of the workspaces
	becauseTimeOut    = "time_out"    // of the handler
	becauseMemory     = "memory"      // the container had too little
	becauseExit       = "exit"        // the container has ended with another status than 0
	becauseNotAwaited = "not_awaited" // the job was cancelled, its lease was lost, or the runner stops
	becauseEngineAway = "engine_away"
	becauseServerAway = "server_away"
	becauseRegistry   = "registry_away"
	becauseRunner     = "runner" // the runner could not prepare the run
)

// Reasons lists the reasons.
func Reasons() []string {
	return append([]string{becauseRefused, becauseTooLarge, becauseDiskFull, becauseTimeOut, becauseMemory, becauseExit, becauseNotAwaited, becauseEngineAway, becauseServerAway,
		becauseRegistry, becauseRunner}, Steps()...)
}

// Steps lists the steps of a run, in their order.
func Steps() []string { return []string{pullImage, pullFileset, create, start, running, pushFileset} }

// counters count what the containers do.
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

// Stats returns what the containers have done until now.
func (e *Engine) Stats() (s Stats) {
	e.counters.change(func(n *Stats) {
		s = *n
		s.Ended, s.Failures, s.Steps = maps.Clone(n.Ended), maps.Clone(n.Failures), maps.Clone(n.Steps)
	})
	s.LogBytes, s.LogBytesKept = e.keeper.Bytes()
	return s
}
