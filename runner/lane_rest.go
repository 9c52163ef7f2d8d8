package runner

import (
	"sync"
	"time"

	"github.com/daybookq/daybook/client"
)

// How long a lane claims nothing after it has returned a job that it cannot run: the first time, and at most.
const (
	firstRest = time.Second
	mostRest  = time.Minute
)

// rest is a time in which a lane claims nothing, because its jobs cannot run: they name no binary, their handler cannot
// be loaded, or a service that they need is unreachable. Each rest is twice as long as the last one, until a job can
// run.
type rest struct {
	mu    sync.Mutex
	until time.Time
	last  time.Duration
}

// begin begins a rest and returns its length, or 0 if the lane already rests. The first rest after work has length
// first.
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

// worked resets the length of the next rest, because a job could run.
func (r *rest) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = 0
}

// end ends the rest, because the handler has a new version.
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

// noBinary is the reason that a job of an implicit lane cannot run.
const noBinary = "the job has neither a handler nor a binary_addr"

// restFrom stops a lane's claims for a while and returns its waiting jobs, because job j cannot run. why is the reason.
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
