package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
)

// counters count jobs and their outcomes.
type counters struct {
	mu      sync.Mutex
	held    int       // jobs handed out and not ended
	last    time.Time // the last time a job was handed out or ended
	claimed int64
	ended   map[ending]int64
	took    map[string]time.Duration // by type
	failing error                    // why the server cannot be reached
	seen    bool                     // the server has answered
}

// ending is a type and the way in which a run of it ended.
type ending struct {
	typ  string
	code string // ok, failed, retry, error, returned, or lost
}

// maxTypes bounds the types that are counted separately. All further types are counted as one.
const maxTypes = 200

// event counts an event of a worker.
func (c *counters) event(e worker.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if e.Job == nil {
		c.held += e.Jobs
		c.claimed += int64(e.Jobs)
		return
	}
	c.held--
	code := e.Outcome.Code
	switch {
	case errors.Is(e.Err, worker.ErrUnget), errors.Is(e.Err, worker.ErrDraining), errors.Is(e.Err, client.ErrUndecodable):
		code = "returned"
	case e.Err != nil:
		code = "lost"
	case code == "":
		code = "ok"
	}
	typ := e.Job.Type
	if c.ended == nil {
		c.ended, c.took = map[ending]int64{}, map[string]time.Duration{}
	}
	if _, known := c.took[typ]; !known && len(c.took) >= maxTypes {
		typ = "(other)"
	}
	c.ended[ending{typ, code}]++
	c.took[typ] += e.Took
}

// idleSince reports whether no job runs, and since when.
func (c *counters) idleSince() (since time.Time, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.held <= 0
}

func (c *counters) reached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing, c.seen = nil, true
}

func (c *counters) unreachable(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = err
}

// Totals are a runner's counts since it began.
type Totals struct {
	Held    int // jobs that run or wait for a slot
	Claimed int64
	Ended   map[string]int64 // by code
}

// Totals returns the runner's counts.
func (r *Runner) Totals() Totals {
	c := &r.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Totals{Held: max(c.held, 0), Claimed: c.claimed, Ended: map[string]int64{}}
	for e, n := range c.ended {
		t.Ended[e.code] += n
	}
	return t
}

// String formats the totals as a line for people.
func (t Totals) String() string {
	text := fmt.Sprintf("%d held", t.Held)
	for _, code := range slices.Sorted(maps.Keys(t.Ended)) {
		text += fmt.Sprintf(", %d %s", t.Ended[code], code)
	}
	return text
}

// Healthy returns nil if the server answers, and otherwise an error with the reason.
func (r *Runner) Healthy() error {
	c := &r.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failing != nil:
		return fmt.Errorf("%w: %w", errUnreachable, c.failing)
	case !c.seen:
		return errUnreachable
	}
	return nil
}
