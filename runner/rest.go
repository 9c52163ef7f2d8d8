package runner

import (
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// How long a lane claims nothing after it has returned a job that nobody can run, at first and at most.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// rest is when a lane claims nothing, because its jobs cannot run: they name no binary, or their handler cannot be loaded, or
// what they need is away. Each rest is twice as long as the last one, until a job could run.
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

// end ends a rest: there is another version of the handler.
func (r *rest) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.last = time.Time{}, 0
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

// noBinary says why a job of an implicit lane cannot run.
const noBinary = "the job has neither a handler nor a binary_addr"

// restFrom lets a lane claim nothing for a while, and returns what it holds, because of a job that cannot run. why says why.
func (r *Runner) restFrom(l *lane, j *client.Job, why string) {
	pause := l.rest.begin(r.pace.rest)
	if pause == 0 {
		return
	}
	r.say("rest "+j.Client+" "+l.typ+" "+why, "jobs of this type cannot run, and are returned to their queue without an attempt; the runner claims none for 1 s, and then for longer and longer, up to 1 min",
		"type", j.Type, "client", j.Client, "job_id", j.ID, "reason", why)
	l.mu.Lock()
	l.removeWaiting(func(*waiting) bool { return true })
	l.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.updateFeeds()
	time.AfterFunc(pause, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.updateFeeds()
	})
}
