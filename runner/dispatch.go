package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/client/worker"
	"github.com/daybookq/daybook/runner/task"
)

const (
	// strayPause is how long the runner keeps a job that it cannot run before it returns the job. Without the pause, it
	// would claim the same job again and again.
	strayPause = 5 * time.Second
	// mostStrays bounds the strays that a feed holds in addition to its lanes' jobs. A feed that claims all clients'
	// jobs also gets jobs of clients that have their own handler, because a claim cannot exclude clients.
	mostStrays = 100
)

// handout is a group of jobs that a worker handed out together.
type handout struct {
	r     *Runner
	left  atomic.Int64 // jobs that have not ended
	watch func() bool  // stops watching Runner.runs
}

// dispatch adds the jobs that a feed has claimed to their lanes.
func (r *Runner) dispatch(f *feed, runs []*worker.Run) {
	h := &handout{r: r}
	h.left.Store(int64(len(runs)))
	r.mu.Lock()
	end := r.runs // ends the runs that begin now
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
			u.End(client.Outcome{}, worker.ErrUnget)
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

// laneOf returns a job's lane, or nil if this runner cannot run the job. r.mu is held.
func (r *Runner) laneOf(j *client.Job) *lane {
	l := r.lanes[queue{"", j.Type}]
	switch {
	case l != nil && l.local: // a handler in the configuration
		return l
	case j.Handler == nil:
		if l != nil && l.implicit {
			return l
		}
		return nil
	case l != nil && l.implicit && j.Handler.Client == "": // the handler was stored a moment ago; refresh has not seen it yet
		return nil
	}
	return r.lanes[queue{j.Handler.Client, j.Type}]
}

// cancelAll cancels runs. Those that still wait for slots go back to their queues.
func cancelAll(runs []*worker.Run, lanes []*lane, cause error) {
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

// job prepares a job for its lane.
func (h *handout) job(f *feed, l *lane, u *worker.Run) *waiting {
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
			h.r.restFrom(l, u.Job, e.Unable) // rest first, so that the feed does not claim the job again immediately
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

// stray returns to its queue, after strayPause, a job that this runner cannot run.
func (h *handout) stray(f *feed, u *worker.Run) {
	j := u.Job
	h.r.say("stray "+j.Client+" "+j.Type, "this runner cannot run a job that it has claimed, and returns it", "type", j.Type, "client", j.Client, "job_id", j.ID)
	h.r.refreshSoon()
	f.strays.Add(1)
	end := sync.OnceFunc(func() {
		f.strays.Add(-1)
		u.End(client.Outcome{}, worker.ErrUnget)
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

// outcome returns the outcome that the Worker reports. A run that the runner itself has ended costs no attempt.
func outcome(ctx context.Context, e task.End) (client.Outcome, error) {
	if e.Unget || e.Code != "ok" && e.Code != "failed" && endedByRunner(ctx) {
		return client.Outcome{}, worker.ErrUnget
	}
	e.Outcome.Then = e.Then
	return e.Outcome, nil
}

// endedByRunner reports whether a run ended because the runner stops or the server declared it lost.
func endedByRunner(ctx context.Context) bool {
	cause := ctx.Err()
	return errors.Is(cause, worker.ErrDraining) || errors.Is(cause, errDropped)
}
