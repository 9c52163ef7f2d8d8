package memory

import (
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// QueueTally counts the events of a queue's jobs, from the time when the queue was first counted.
type QueueTally struct {
	Created   uint64
	Claimed   uint64 // handed out to runners, once for each run
	Completed uint64
	Failed    uint64 // finally
	Retried   uint64 // runs that ended with retry or error, if their jobs run again
	Returned  uint64 // runs that ended without an attempt: the runner gave the job back, or its payload is damaged
	Abandoned uint64 // runs that ended without a report: their lease or time-out ended, or their runner was lost
	Cancelled uint64 // on request, at the end of their batch, or because they expired
	Expired   uint64 // of Cancelled: jobs that had not started by their expires_at
	Deleted   uint64 // before their end
	Redriven  uint64
	Waiting   DurationCounts // of claimed jobs: from when they became pending until the claim
	Running   DurationCounts // of runs whose runners reported an outcome that counts as an attempt
}

// Add counts the move of n jobs at a time.
func (t *QueueTally) Add(n uint64, old, next *job.State, why job.Reason, at int64) {
	switch why {
	case job.ReasonCreated:
		if next.Status != job.Purged { // no job was made, because an existing job has its unique key
			t.Created += n
		}
	case job.ReasonClaimed:
		t.Claimed += n
		t.Waiting.Add(at-old.UpdatedAt, n)
	case job.ReasonEnded:
		t.Ended(n, old, next, at)
	case job.ReasonAbandoned, job.ReasonTimedOut:
		t.Abandoned += n
		if next.Status == job.Failed {
			t.Failed += n
		}
	case job.ReasonExpired:
		t.Expired += n
		t.Cancelled += n
	case job.ReasonCancelled:
		t.Cancelled += n
	case job.ReasonRedriven:
		t.Redriven += n
	case job.ReasonDeleted:
		if old.Status.Unfinished() {
			t.Deleted += n
		}
	}
}

// Ended counts runs that ended with an outcome, including the runs of lost runners. If no runner had claimed the
// jobs, they were waiting.
func (t *QueueTally) Ended(n uint64, old, next *job.State, at int64) {
	if next.Code == job.Unget || next.Code == job.Damaged {
		t.Returned += n
		return
	}
	switch {
	case next.Code == job.Lost:
		t.Abandoned += n
		if next.Status == job.Failed {
			t.Failed += n
		}
		return
	case next.Status == job.Completed:
		t.Completed += n
	case next.Status == job.Failed:
		t.Failed += n
	default:
		t.Retried += n
	}
	if old.Status == job.Active {
		t.Running.Add(at-old.UpdatedAt, n)
	}
}

// tally is a row of metrics: the counts of one queue.
type tally struct {
	row.QueueName
	queue uint32 // its number; 0: the row was given to a different queue
	since int64
	QueueTally
	moves activity
	// As of the last commit.
	counts job.Counts
	paused bool
	floors []string // for each lane with pending jobs, a ready key that is not after its first span
	goneAt int64    // when the queue was deleted; 0: it exists
}

// shows records the committed state of the queue.
func (r *tally) shows(counts job.Counts, paused bool, floors func(add func(key string))) {
	r.counts, r.paused = counts, paused
	r.floors = r.floors[:0]
	floors(func(key string) { r.floors = append(r.floors, key) })
}

// activity counts moves in the present hour and the hour before. It shows which queues are the busiest.
type activity struct {
	hour          int32
	now, previous uint32
}

func hourOf(at int64) int32 { return int32(at / row.HourMs) }

func (a *activity) Add(hour int32) {
	if hour != a.hour {
		a.previous, a.now, a.hour = a.recent(hour), 0, hour
	}
	a.now++
}

// recent returns the number of moves in this hour so far and in the hour before.
func (a *activity) recent(hour int32) uint32 {
	switch hour - a.hour {
	case 0:
		return a.now + a.previous
	case 1:
		return a.now
	}
	return 0
}

// Figures returns a row's figures, for readers that do not hold the lock.
func (r *tally) Figures() QueueFigures {
	return QueueFigures{
		Client: r.Client, Type: r.Typ, Since: r.since, QueueTally: r.QueueTally, Paused: r.paused,
		Deferred: r.counts[job.Deferred], Pending: r.counts[job.Pending], Active: r.counts[job.Active],
		Floors: slices.Clone(r.floors),
	}
}

// QueueFigures are the figures of one queue, or of all queues without a row together.
type QueueFigures struct {
	Client, Type string // "" and "" for all queues without a row
	Since        int64  // when the counts began, unix ms
	QueueTally
	Paused                    bool
	Deferred, Pending, Active int64
	// PendingSince looks at the job that is next in line in each priority. It is when the oldest of these jobs became
	// pending, in unix ms. 0: no job is pending. -1: unknown.
	PendingSince int64
	Floors       []string
}
