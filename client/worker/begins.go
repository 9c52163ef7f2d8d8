package worker

import (
	"log/slog"
	"slices"
	"time"

	"github.com/daybookq/daybook/client"
)

const (
	// maxTickled is how many jobs a tickle names, and beginPatience how long runs wait for its answer.
	maxTickled    = 1000
	beginPatience = time.Second
)

// begins announces that runs begin. If the process dies, only announced runs count as attempts.
type begins struct {
	*transport
	jobs   *jobs
	later  bool   // see Worker.BeginLater
	runner string // its id
	logger *slog.Logger
}

// wait returns when the server knows that the run of a task begins, as far as the worker can ensure it.
func (b *begins) wait(t *task) {
	switch a := t.announcement; {
	case a == nil:
	case a.tasks[0] == t:
		b.send(b.beginStream(), a.tasks)
		close(a.sent)
	default:
		<-a.sent
	}
}

// announce announces that runs of a worker with BeginLater begin now.
func (b *begins) announce(tasks []*task) {
	b.send(b.beginStream(), b.jobs.begin(tasks))
}

// send announces that runs have begun: in a stream, where that costs the server nothing, and otherwise by a
// tickle that names them. Without BeginLater, jobs have begun with their claim. Only jobs that a stream sent have not:
// again announces these.
func (b *begins) send(s *client.Stream, tasks []*task) {
	switch {
	case len(tasks) == 0:
	case s != nil:
		claims := map[string][]string{}
		for _, t := range tasks {
			claims[t.claim.id] = append(claims[t.claim.id], t.run.Job.ID)
		}
		s.Begin(claims)
	case b.later:
		for some := range slices.Chunk(tasks, maxTickled) {
			ids := make([]string, len(some))
			for i, t := range some {
				ids[i] = t.run.Job.ID
			}
			// The tickles of their claims find the jobs that are lost. A server that does not answer does not delay the
			// runs.
			if _, err := once(b.calls(), beginPatience).TickleJobs(b.ctx, ids, client.TickleOptions{RunnerID: b.runner}); err != nil {
				b.logger.Debug("cannot say that runs begin", "jobs", len(ids), "error", err)
			}
		}
	}
}

// again announces in a new stream which runs have begun.
func (b *begins) again(s *client.Stream) { b.send(s, b.jobs.begun()) }
