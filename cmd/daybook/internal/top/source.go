package top

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/cmd/daybook/internal/config"
	"github.com/daybookq/daybook/ingest"
)

const (
	// requestTimeout bounds the requests of one refresh.
	requestTimeout = 10 * time.Second
	// maxQueues bounds how many queues a refresh reads.
	maxQueues = 10_000
	jobsPage  = 1000
	// shownFailed is how many failed jobs are shown, and maxFailedRead how many are read to find the newest.
	shownFailed   = 100
	maxFailedRead = 2000
)

// source is the source of the figures.
type source interface {
	read() snapshot
	pause(q config.QueueName, pause bool) error
	failed(q config.QueueName) ([]*client.Job, error)
}

// snapshot holds the figures of one moment. If err is set, there are none.
type snapshot struct {
	at      time.Time
	version client.Version
	stats   ingest.Stats
	text    []byte // of the stats
	queues  []client.Queue
	more    bool // some queues were not read
	err     error
}

// server reads the figures of a server.
type server struct {
	ctx context.Context // of the command
	c   *client.Client
}

func (t *server) read() (s snapshot) {
	ctx, stop := context.WithTimeout(t.ctx, requestTimeout)
	defer stop()
	s.err = t.fill(ctx, &s)
	s.at = time.Now()
	return s
}

func (t *server) fill(ctx context.Context, s *snapshot) (err error) {
	if s.version, err = t.c.Version(ctx); err != nil {
		return err
	}
	stats, err := t.c.Stats(ctx)
	if err != nil {
		return err
	}
	s.text = stats.Text
	if err := json.Unmarshal(s.text, &s.stats); err != nil {
		return fmt.Errorf("%w: %w", client.ErrUnexpectedAnswer, err)
	}
	s.queues = []client.Queue{}
	for q, err := range t.c.Queues(ctx, "") {
		if err != nil {
			return err
		}
		if len(s.queues) == maxQueues {
			s.more = true
			break
		}
		s.queues = append(s.queues, q)
	}
	return nil
}

func (t *server) pause(q config.QueueName, pause bool) (err error) {
	ctx, stop := context.WithTimeout(t.ctx, requestTimeout)
	defer stop()
	if pause {
		_, err = t.c.Pause(ctx, q.Client, q.Type)
	} else {
		_, err = t.c.Resume(ctx, q.Client, q.Type)
	}
	return err
}

// failed returns the newest failed jobs, the newest first. The server lists the oldest of a period first. So failed
// makes the period longer until it has enough jobs, and shorter while it has more than are read.
func (t *server) failed(q config.QueueName) (list []*client.Job, err error) {
	ctx, stop := context.WithTimeout(t.ctx, requestTimeout)
	defer stop()
	now := time.Now()
	few, many := time.Duration(0), 2*keptFailed // periods before now that have too few and too many jobs
	var best []*client.Job                      // the jobs of the period few
	for age := time.Minute; ; {
		if list, err = t.failedSince(ctx, q, now.Add(-age)); err != nil {
			return nil, err
		}
		switch {
		case len(list) == maxFailedRead:
			many = age
		case len(list) >= shownFailed:
			return newestFirst(list), nil
		case age >= keptFailed:
			all, err := t.failedSince(ctx, q, time.UnixMilli(0))
			if err == nil && len(all) < maxFailedRead {
				list = all
			}
			return newestFirst(list), err
		default:
			few, best = age, list
		}
		if many-few < time.Millisecond { // so many jobs were created at the same time, to the millisecond
			return newestFirst(best), nil
		}
		if age *= 8; age >= many {
			age = few + (many-few)/2
		}
	}
}

func newestFirst(list []*client.Job) []*client.Job {
	slices.Reverse(list)
	return list[:min(len(list), shownFailed)]
}

// keptFailed is longer than the default retention of servers.
const keptFailed = 32 * 24 * time.Hour

// failedSince returns the failed jobs that were created since a time, the oldest first, and maxFailedRead at most.
func (t *server) failedSince(ctx context.Context, q config.QueueName, since time.Time) (list []*client.Job, err error) {
	query := client.JobsQuery{
		Client: q.Client, Type: q.Type, Status: "failed", PageSize: jobsPage, Fields: []string{"error", "status", "code", "run_attempts", "completed_at", "why"},
		CreatedAfter: since.UnixMilli(),
	}
	for j, err := range t.c.Jobs(ctx, query) {
		if err != nil {
			return nil, err
		}
		if list = append(list, j); len(list) == maxFailedRead {
			break
		}
	}
	return list, nil
}
