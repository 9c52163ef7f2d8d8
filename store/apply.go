package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/lsm"
)

// Apply carries out one command. It is the only state machine. It is total and deterministic: it reads no clock, random
// source or configuration. Its decisions depend only on the command, the command's seq and time, and the state that
// earlier commands made. So the same journal always leads to the same keys and values. A command at or below the cursor
// has been applied before, and changes nothing. Queries see the effects after Commit.
//
// An error means that the database failed. The store must then be closed.
func (s *Store) Apply(seq uint64, at int64, cmd job.Command) (result Result, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.machine.live.mu.Lock()
	defer s.machine.live.mu.Unlock()
	if s.broken != nil || seq <= s.machine.live.meta.cursor {
		return nil, s.broken
	}
	defer func() { s.broken = err }()
	defer lsm.Catch(&err)
	if s.beforeApply != nil {
		s.beforeApply(seq)
	}
	a := s.begin(job.Now{Seq: seq, At: max(at, s.machine.live.meta.at)})
	result = a.apply(cmd)
	a.end()
	s.pending = true
	return result, nil
}

// maxPending is the size at which rows should be committed. A larger batch would not be faster, and the answers to its
// first commands would be delayed longer.
const maxPending = 4 << 20

// CommitDue reports whether the caller of Apply should commit before the next command, because many bytes wait to be
// written, or because the caches are full, which only a commit trims. Refused commands write no rows, but fill the
// caches with the rows that they name.
func (s *Store) CommitDue() bool {
	m := s.machine
	return m.o.Bytes() >= maxPending || m.caches.full(m.bounds)
}

// begin begins a command. It reuses the memory of the previous command.
func (s *Store) begin(now job.Now) *applying {
	a := &s.command
	a.machine, a.now, a.due, a.restRows = s.machine, now, 0, s.machine.rules.commandRows
	a.besideRows, a.pointDeletes = 0, maxPointDeletes
	a.beginEpoch()
	return a
}
