package store

import (
	"slices"

	"github.com/daybookq/daybook/job"
)

// QueueTally is what happened to the jobs of a queue since it is counted.
type QueueTally struct {
	Created   uint64
	Claimed   uint64 // handed out to runners, once for each run
	Completed uint64
	Failed    uint64 // for good
	Retried   uint64 // runs that ended with retry or error, and whose jobs run again
	Returned  uint64 // runs that ended without an attempt: the runner gave the job back, or its payload is damaged
	Abandoned uint64 // runs that ended without a report: their lease or time-out ended, or their runner was lost
	Cancelled uint64 // on request, by the end of their batch, or because they expired
	Expired   uint64 // of Cancelled: those that were not started by their expires_at
	Deleted   uint64 // before their end
	Redriven  uint64
	Waiting   DurationCounts // of claimed jobs: from when they became pending until the claim
	Running   DurationCounts // of runs whose runners reported an outcome that counts as an attempt
}

// counts reports whether moves for a reason are counted.
func (r reason) counts() bool {
	switch r {
	case reasonCreated, reasonClaimed, reasonEnded, reasonAbandoned, reasonTimedOut, reasonCancelled, reasonExpired, reasonRedriven, reasonDeleted:
		return true
	}
	return false
}

// add counts the move of n jobs at a time.
func (t *QueueTally) add(n uint64, old, next *job.State, why reason, at int64) {
	switch why {
	case reasonCreated:
		if next.Status != job.Purged { // no job was made: another one has its unique key
			t.Created += n
		}
	case reasonClaimed:
		t.Claimed += n
		t.Waiting.Add(at-old.UpdatedAt, n)
	case reasonEnded:
		t.ended(n, old, next, at)
	case reasonAbandoned, reasonTimedOut:
		t.Abandoned += n
		if next.Status == job.Failed {
			t.Failed += n
		}
	case reasonExpired:
		t.Expired += n
		t.Cancelled += n
	case reasonCancelled:
		t.Cancelled += n
	case reasonRedriven:
		t.Redriven += n
	case reasonDeleted:
		if old.Status.Unfinished() {
			t.Deleted += n
		}
	}
}

// ended counts the ends of runs that were reported. The jobs were waiting if nobody had claimed them.
func (t *QueueTally) ended(n uint64, old, next *job.State, at int64) {
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

// tally is a row of metrics: what is counted for one queue.
type tally struct {
	queueName
	queue uint32 // its number; 0: the row was given to another queue
	since int64
	QueueTally
	moves activity
	// As of the last commit.
	counts job.Counts
	paused bool
	floors []string // for each lane with pending jobs, a ready key that is not after its first one
	goneAt int64    // when the queue was deleted; 0: it is there
}

// shows notes the state of the queue, which was committed.
func (r *tally) shows(counts job.Counts, paused bool, floors func(add func(key string))) {
	r.counts, r.paused = counts, paused
	r.floors = r.floors[:0]
	floors(func(key string) { r.floors = append(r.floors, key) })
}

// activity counts moves in the present hour and the one before. It says which queues are busier than others.
type activity struct {
	hour          int32
	now, previous uint32
}

func hourOf(at int64) int32 { return int32(at / hourMs) }

func (a *activity) add(hour int32) {
	if hour != a.hour {
		a.previous, a.now, a.hour = a.recent(hour), 0, hour
	}
	a.now++
}

// recent returns how many moves there were in an hour so far and in the one before.
func (a *activity) recent(hour int32) uint32 {
	switch hour - a.hour {
	case 0:
		return a.now + a.previous
	case 1:
		return a.now
	}
	return 0
}

// figures returns what a row shows, for readers that do not hold the lock.
func (r *tally) figures() QueueFigures {
	return QueueFigures{
		Client: r.client, Type: r.typ, Since: r.since, QueueTally: r.QueueTally, Paused: r.paused,
		Deferred: r.counts[job.Deferred], Pending: r.counts[job.Pending], Active: r.counts[job.Active],
		floors: slices.Clone(r.floors),
	}
}

// QueueFigures are the figures of one queue, or of all queues that have none of their own.
type QueueFigures struct {
	Client, Type string // "" and "" for all other queues
	Since        int64  // when the counts began, unix ms
	QueueTally
	Paused                    bool
	Deferred, Pending, Active int64
	// PendingSince is when the job became pending that has been pending for the longest time, of those that are next in
	// line in a priority, unix ms. 0: none is pending. -1: unknown.
	PendingSince int64
	floors       []string
}
