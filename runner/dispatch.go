package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/runner/task"
)

const (
	// strayPause is how long the runner keeps a job that it cannot run before it returns the job, so that it does not
	// claim the same job again and again.
	strayPause = 5 * time.Second
	// mostStrays is how many strays a feed holds beside the jobs of its lanes. A feed that claims the jobs of all clients
	// also gets those of clients with handlers of their own, because a claim cannot exclude clients.
	mostStrays = 100
)

// handout is jobs that a worker has handed out together.
type handout struct {
	r     *Runner
	left  atomic.Int64 // jobs that have not ended
	watch func() bool  // ends the watch of Runner.runs
}

// dispatch adds the jobs that a feed has claimed to their lanes.
func (r *Runner) dispatch(f *feed, runs []*client.Run) {
	h := &handout{r: r}
	h.left.Store(int64(len(runs)))
	r.mu.Lock()
	end := r.runs // what ends the runs that begin now
	lanes := make([]*lane, len(runs))
	for i, u := range runs {
		if lanes[i] = r.laneOf(u.Job); lanes[i] != nil && !lanes[i].nothingToRun(u.Job) {
			lanes[i].users.Add(1)
		}
	}
	r.mu.Unlock()
	h.watch = context.AfterFunc(end, func() { cancelAll(runs, lanes, context.Cause(end)) })
	var jobs []*waiting
	for i, u := range runs {
		l := lanes[i]
		if l == nil {
			h.stray(f, u)
			continue
		}
		if l.nothingToRun(u.Job) {
			u.End(client.Outcome{}, client.ErrUnget)
			h.ended()
			r.restFrom(l, u.Job, noBinary)
		} else {
			jobs = append(jobs, h.job(f, l, u))
		}
		if i == len(runs)-1 || lanes[i+1] != l {
			l.add(jobs)
			jobs = nil
		}
	}
}

// laneOf returns the lane of a job, or nil if this runner cannot run it. r.mu is held.
func (r *Runner) laneOf(j *client.Job) *lane {
	l := r.lanes[queue{"", j.Type}]
	switch {
	case l != nil && l.local: // a handler of the configuration
		return l
	case j.Handler == nil:
		if l != nil && l.implicit {
			return l
		}
		return nil
	case l != nil && l.implicit && j.Handler.Client == "": // a handler that was stored a moment ago
		return nil
	}
	return r.lanes[queue{j.Handler.Client, j.Type}]
}

// cancelAll ends runs, and returns those of them that wait for slots to their queues.
func cancelAll(runs []*client.Run, lanes []*lane, cause error) {
	for _, u := range runs {
		u.Cancel(cause)
	}
	for i, l := range lanes {
		if l != nil && !slices.Contains(lanes[:i], l) {
			l.mu.Lock()
			l.endUnwanted()
			l.mu.Unlock()
		}
	}
}

// job returns a job for a lane.
func (h *handout) job(f *feed, l *lane, u *client.Run) *waiting {
	stray := !slices.Contains(f.lanes, l)
	if stray {
		f.strays.Add(1)
	}
	bytes := int64(len(u.Job.Payload))
	h.r.heldBytes.Add(bytes)
	w := &waiting{Task: task.New(u, u.Job, func(e task.End) {
		h.r.heldBytes.Add(-bytes)
		if stray {
			f.strays.Add(-1)
		}
		o, err := outcome(u, h.r.withBlob(u, e))
		if err == nil {
			l.rest.worked()
		}
		if e.Unable != "" {
			h.r.restFrom(l, u.Job, e.Unable) // first, so that the job does not come back at once
		}
		u.End(o, err)
		if err == nil && (o.Code == "error" || o.Code == "failed") {
			h.r.failures.log(h.r.Log, u.Job, &o)
		}
		h.ended()
		l.users.Done()
	})}
	if !l.local && !l.implicit {
		w.version = u.Job.Handler.ID
	}
	return w
}

// stray returns a job that this runner cannot run to its queue, after a while.
func (h *handout) stray(f *feed, u *client.Run) {
	j := u.Job
	h.r.say("stray "+j.Client+" "+j.Type, "this runner cannot run a job that it has claimed, and returns it", "type", j.Type, "client", j.Client, "job_id", j.ID)
	h.r.refreshSoon()
	f.strays.Add(1)
	end := sync.OnceFunc(func() {
		f.strays.Add(-1)
		u.End(client.Outcome{}, client.ErrUnget)
		h.ended()
	})
	time.AfterFunc(strayPause, end)
	u.AfterFunc(end)
}

func (h *handout) ended() {
	if h.left.Add(-1) == 0 {
		h.watch()
	}
}

// outcome returns what the Worker reports. A run that the runner itself has ended costs no attempt.
func outcome(ctx context.Context, e task.End) (client.Outcome, error) {
	if e.Unget || e.Code != "ok" && e.Code != "failed" && endedByRunner(ctx) {
		return client.Outcome{}, client.ErrUnget
	}
	e.Outcome.Then = e.Then
	return e.Outcome, nil
}

// endedByRunner reports whether a run was ended because the runner stops, or was declared lost.
func endedByRunner(ctx context.Context) bool {
	cause := ctx.Err()
	return errors.Is(cause, client.ErrDraining) || errors.Is(cause, errDropped)
}
