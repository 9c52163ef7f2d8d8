package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Commit makes the applied commands visible to queries, in one Pebble batch with the cursor. They are durable once
// Pebble has flushed; until then the journal keeps them. While Pebble cannot write to its disk, Commit may block,
// without a time limit. Queries continue during that time, because Commit does not hold live.mu.
func (s *Store) Commit() (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.broken != nil || !s.pending {
		return s.broken
	}
	defer func() { s.broken = err }()
	defer lsm.Catch(&err)
	m := s.machine
	m.flushDirty()
	if err := s.db.Commit(&m.o); err != nil {
		return err
	}
	s.pending = false
	m.caches.trim(m.bounds)
	if m.windows.Full() {
		m.shrinkWindows()
	}
	m.publish()
	return nil
}

// ObserveRunEnds makes Apply collect the ends of runs from now on, for TakeRunEnds. Only the applying goroutine may
// call it.
func (s *Store) ObserveRunEnds() { s.machine.runs.observed = true }

// TakeRunEnds returns the ends of runs that were applied since it was last called, in their order. It returns none
// without ObserveRunEnds. If a sweep changes a job's end in the same command, the end has the outcome of the run, and
// the status before the sweep. Only the applying goroutine may call TakeRunEnds. The list is valid until the next
// command.
func (s *Store) TakeRunEnds() []job.RunEnd { return s.machine.runs.take() }

// ObserveBatchEnds makes Apply collect the ends of batches with attributes from now on, for TakeBatchEnds. Only the
// applying goroutine may call it.
func (s *Store) ObserveBatchEnds() { s.machine.batchEnds.observed = true }

// TakeBatchEnds returns the ends of batches that were applied since it was last called. Only the applying goroutine may
// call it.
func (s *Store) TakeBatchEnds() []job.BatchEnd { return s.machine.batchEnds.take() }

// ObserveQueues makes Apply count the events of the jobs of queues from now, unix ms, for QueueFigures: separately for
// up to limit queues, and together for all other queues. If it is called again, the counts begin again at 0. Only the
// applying goroutine may call it, after a commit.
func (s *Store) ObserveQueues(limit int, now int64) {
	m := s.machine
	m.tally.observe(limit, max(now, m.meta.at), m.queues.byID, m.counts)
}

// TakeSilent returns the runners whose leases have ended without a tickle since it was last called. Only the applying
// goroutine may call it.
func (s *Store) TakeSilent() []string {
	runners := s.machine.silentRunners
	s.machine.silentRunners = nil
	return runners
}

// TakeReadied returns the queues that gained pending jobs, or were resumed, since it was last called. all is set if
// the switch was set to start since then: all ready queues are meant, and because there may be very many,
// ReadyQueues lists them. Only the applying goroutine may call TakeReadied.
func (s *Store) TakeReadied() (names []Readied, all bool) {
	m := s.machine
	for _, q := range m.readied {
		if !q.paused && !m.meta.stopped && q.counts[job.Pending] > 0 {
			names = append(names, Readied{q.client, q.typ, q.counts[job.Pending]})
		}
		q.readied = false
	}
	m.readied = m.readied[:0]
	all, m.allReadied = m.allReadied, false
	return names, all
}
