package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/row"
)

// Commit makes the applied commands visible to queries, in one Pebble batch with the cursor. They are durable once
// Pebble has flushed; until then the journal keeps them. While Pebble cannot write to its disk, Commit may block,
// without a time limit. Queries continue during that time, because Commit does not hold live.mu.
func (s *Store) Commit() (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return row.ErrClosed
	}
	if s.broken != nil || !s.pending {
		return s.broken
	}
	defer func() { s.broken = err }()
	defer lsm.Catch(&err)
	m := s.machine
	m.FlushDirty()
	if err := s.db.Commit(&m.O); err != nil {
		return err
	}
	s.pending = false
	m.Caches.Trim(m.Bounds)
	if m.Windows.Full() {
		m.ShrinkWindows()
	}
	m.Publish()
	return nil
}

// ObserveRunEnds makes Apply collect the ends of runs from now on, for TakeRunEnds. Only the applying goroutine may
// call it.
func (s *Store) ObserveRunEnds() { s.machine.Runs.Observed = true }

// TakeRunEnds returns the ends of runs that were applied since it was last called, in their order. It returns none
// without ObserveRunEnds. If a sweep changes a job's end in the same command, the end has the outcome of the run, and
// the status before the sweep. Only the applying goroutine may call TakeRunEnds. The list is valid until the next
// command.
func (s *Store) TakeRunEnds() []job.RunEnd { return s.machine.Runs.Take() }

// ObserveBatchEnds makes Apply collect the ends of batches with attributes from now on, for TakeBatchEnds. Only the
// applying goroutine may call it.
func (s *Store) ObserveBatchEnds() { s.machine.BatchEnds.Observed = true }

// TakeBatchEnds returns the ends of batches that were applied since it was last called. Only the applying goroutine may
// call it.
func (s *Store) TakeBatchEnds() []job.BatchEnd { return s.machine.BatchEnds.Take() }

// ObserveQueues makes Apply count the events of the jobs of queues from now, unix ms, for QueueFigures: separately for
// up to limit queues, and together for all other queues. If it is called again, the counts begin again at 0. Only the
// applying goroutine may call it, after a commit.
func (s *Store) ObserveQueues(limit int, now int64) {
	m := s.machine
	m.Tally.Observe(limit, max(now, m.Meta.At), m.AllQueues.ByID, m.Counts)
}

// TakeSilent returns the runners whose leases have ended without a tickle since it was last called. Only the applying
// goroutine may call it.
func (s *Store) TakeSilent() []string {
	runners := s.machine.SilentRunners
	s.machine.SilentRunners = nil
	return runners
}

// Effects returns the moves of jobs that the last command made, in their order. Only the applying goroutine may call it.
func (s *Store) Effects() []applied.Effect { return s.machine.Effects() }

// TakeReadied returns the queues that gained pending jobs, or were resumed, since it was last called. If somebody
// started the server's queues since then, all is set, and the caller lists the ready queues by ReadyQueues, because
// there may be very many. Only the applying goroutine may call TakeReadied.
func (s *Store) TakeReadied() (names []document.Readied, all bool) {
	m := s.machine
	for _, q := range m.Readied {
		if !q.Paused && !m.Meta.Stopped && q.Counts[job.Pending] > 0 {
			names = append(names, document.Readied{q.Client, q.Typ, q.Counts[job.Pending]})
		}
		q.Readied = false
	}
	m.Readied = m.Readied[:0]
	all, m.AllReadied = m.AllReadied, false
	return names, all
}
