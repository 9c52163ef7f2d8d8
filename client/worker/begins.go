package worker

import (
	"slices"
	"time"

	"github.com/daybookq/daybook/client"
)

// announcement is one message which notifies the server that some runs have begun. If the process ends then, only these
// runs count as attempts.
type announcement struct {
	tasks []*task       // the goroutine of the first one sends it
	sent  chan struct{} // closed when it is written
}

const (
	// beginsAhead bounds how much later than the first a run may begin that is announced in the same message. A message
	// for each job would cost quick handlers more than their work.
	beginsAhead = 100 * time.Microsecond
	// maxBegins bounds the runs of a message.
	maxBegins = 64
	// maxTickled is how many jobs a tickle names, and beginPatience how long runs wait for its answer.
	maxTickled    = 1000
	beginPatience = time.Second
)

// announceStarted prepares the announcement of jobs that begin now, and of the jobs that begin next if handlers are
// quick. running.mu is held.
func (r *running) announceStarted(tasks []*task) {
	if r.BeginLater {
		return
	}
	var a *announcement
	add := func(t *task) {
		if t.announcement != nil {
			return
		}
		if a == nil {
			a = &announcement{sent: make(chan struct{})}
		}
		a.tasks = append(a.tasks, t)
		t.announcement, t.begun = a, true
	}
	for _, t := range tasks {
		add(t)
	}
	if mean := r.jobs.meanTook; a != nil && mean >= 0 && mean < beginsAhead {
		next := int(beginsAhead*time.Duration(r.Concurrency)/max(mean, time.Microsecond)) - len(tasks)
		for _, t := range r.jobs.queue[:min(max(next, 0), maxBegins, len(r.jobs.queue))] {
			add(t)
		}
	}
}

// announced returns when the server knows that the run of a task begins, as far as the worker can ensure it.
func (r *running) announced(t *task) {
	switch a := t.announcement; {
	case a == nil:
	case a.tasks[0] == t:
		r.sendBegins(r.beginStream(), a.tasks)
		close(a.sent)
	default:
		<-a.sent
	}
}

// sendBegins announces that runs have begun: in a stream, where that costs the server nothing, and otherwise by a
// tickle that names them. Without BeginLater, jobs have begun with their claim. Only jobs that a stream sent have not:
// announceAgain announces these.
func (r *running) sendBegins(s *client.Stream, tasks []*task) {
	switch {
	case len(tasks) == 0:
	case s != nil:
		claims := map[string][]string{}
		for _, t := range tasks {
			claims[t.claim.id] = append(claims[t.claim.id], t.run.Job.ID)
		}
		s.Begin(claims)
	case r.BeginLater:
		for some := range slices.Chunk(tasks, maxTickled) {
			ids := make([]string, len(some))
			for i, t := range some {
				ids[i] = t.run.Job.ID
			}
			// The tickles of their claims find the jobs that are lost. A server that does not answer does not delay the
			// runs.
			if _, err := once(r.calls(), beginPatience).TickleJobs(r.ctx.requests, ids, client.TickleOptions{RunnerID: r.RunnerID}); err != nil {
				r.Logger.Debug("cannot say that runs begin", "jobs", len(ids), "error", err)
			}
		}
	}
}

// beginStream returns the stream in which to announce that runs begin, or nil if there is none.
func (r *running) beginStream() *client.Stream {
	if s := r.begins.Load(); s != nil && s.Err() == nil {
		return s
	}
	return nil
}

// announceAgain announces in a new stream which runs have begun.
func (r *running) announceAgain(s *client.Stream) {
	var begun []*task
	r.mu.Lock()
	for c := range r.leases.claims {
		for i := range c.tasks {
			if t := &c.tasks[i]; t.begun && t.state == started {
				begun = append(begun, t)
			}
		}
	}
	r.mu.Unlock()
	r.sendBegins(s, begun)
}

// Begin announces that runs begin now, for a Worker with BeginLater. It returns when the server knows, or cannot be
// reached: if the process ends after that, the runs count as attempts. It takes a few microseconds, so pass it many
// runs in one call.
func Begin(runs []*Run) {
	for len(runs) > 0 {
		r := runs[0].r
		var tasks []*task
		var others []*Run
		r.mu.Lock()
		for _, u := range runs {
			switch {
			case u.r != r:
				others = append(others, u)
			case !u.t.begun:
				u.t.begun = true
				tasks = append(tasks, u.t)
			}
		}
		r.mu.Unlock()
		r.sendBegins(r.beginStream(), tasks)
		runs = others
	}
}
