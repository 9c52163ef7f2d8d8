package runner

import (
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// How long a lane claims nothing after it has returned a job that names no binary, at first and at most.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// rest is when an implicit lane claims nothing: its queue has jobs that nobody can run. Each rest is twice as long as the
// last one, until a job has named a binary.
type rest struct {
	mu    sync.Mutex
	until time.Time
	last  time.Duration
}

// begin begins a rest and returns how long it takes, or 0 if there is one. A rest after work takes as long as first.
func (r *rest) begin(first time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Before(r.until) {
		return 0
	}
	r.last = min(max(2*r.last, first), mostRest)
	r.until = now.Add(r.last)
	return r.last
}

// worked makes the next rest short.
func (r *rest) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = 0
}

// now reports whether the lane rests.
func (r *rest) now() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until)
}

// nothingToRun reports whether a job of a lane has neither a handler nor a binary. Such a job costs no attempt.
func (l *lane) nothingToRun(j *client.Job) bool {
	if !l.implicit {
		return false
	}
	if j.BinaryAddr != "" {
		l.rest.worked()
		return false
	}
	return true
}

// restFrom lets a lane claim nothing for a while, because of a job that nobody can run.
func (r *Runner) restFrom(l *lane, j *client.Job) {
	pause := l.rest.begin(r.pace.rest)
	if pause == 0 {
		return
	}
	r.say("no binary "+l.typ, "a job has neither a handler nor a binary_addr, so it is returned to its queue; the runner claims no jobs of this type for 1 s, and then for longer and longer, up to 1 min",
		"type", j.Type, "client", j.Client, "job_id", j.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updateFeeds()
	time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.updateFeeds()
	})
}
