package store

import (
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/internal/row"
)

// Apply carries out one command. It is the only state machine. It is total and deterministic: it reads no clock, random
// source or configuration. Its decisions depend only on the command, the command's seq and time, and the state that
// earlier commands made. So the same journal always leads to the same keys and values. A command at or below the cursor
// has been applied before, and changes nothing. Queries see the effects after Commit.
//
// An error means that the database failed. The store must then be closed.
func (s *Store) Apply(seq uint64, at int64, cmd job.Command) (applied.Result, error) {
	return s.ApplyRecord(seq, at, &job.Place{}, &job.Actor{}, cmd)
}

// ApplyRecord is Apply for a command of an actor, and for a log of several nodes. A command that is a repeat, or out of its
// order, has no effect and no result. What is outside of the scope of the actor is as if it did not exist.
func (s *Store) ApplyRecord(seq uint64, at int64, p *job.Place, by *job.Actor, cmd job.Command) (result applied.Result, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil, row.ErrClosed
	}
	s.machine.Live.Mu.Lock()
	defer s.machine.Live.Mu.Unlock()
	if s.broken != nil || seq <= s.machine.Live.Meta.Cursor {
		return nil, s.broken
	}
	defer func() { s.broken = err }()
	defer lsm.Catch(&err)
	if s.beforeApply != nil {
		s.beforeApply(seq)
	}
	a := s.Begin(job.Now{Seq: seq, At: max(at, s.machine.Live.Meta.At)}, by)
	if *p == (job.Place{}) || a.Meta.Cluster.Follow(p, cmd) {
		result = a.Apply(cmd)
	}
	a.End()
	s.pending = true
	return result, nil
}

// Found makes the state the first one of a cluster. It forgets the cluster that the state may be a copy of. Nothing may
// have been applied since the last commit. The next commit writes it.
func (s *Store) Found(id string, founders ...job.Member) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.machine.Live.Mu.Lock()
	defer s.machine.Live.Mu.Unlock()
	s.machine.Live.Meta.Cluster = job.Cluster{ID: id, Index: 1, Term: 1, Members: founders}
	s.pending = true
}

// Cluster returns what the state knows of the log of several nodes.
func (s *Store) Cluster() job.Cluster {
	s.machine.Live.Mu.RLock()
	defer s.machine.Live.Mu.RUnlock()
	return s.machine.Live.Meta.Cluster.Clone()
}

// maxPending is the size at which rows should be committed. A larger batch would not be faster, and the answers to its
// first commands would be delayed longer.
const maxPending = 4 << 20

// CommitDue reports whether the caller of Apply should commit before the next command, because many bytes wait to be
// written, or because the caches are full, which only a commit trims. Refused commands write no rows, but fill the
// caches with the rows that they name.
func (s *Store) CommitDue() bool {
	m := s.machine
	return m.O.Bytes() >= maxPending || m.Caches.Full(m.Bounds)
}

// Begin begins a command. It reuses the memory of the previous command.
func (s *Store) Begin(now job.Now, by *job.Actor) *machine.Applying {
	a := &s.command
	a.Machine, a.Now, a.By, a.Due, a.RestRows = s.machine, now, by, 0, s.machine.Rules.CommandRows
	a.BesideRows, a.PointDeletes = 0, machine.MaxPointDeletes
	a.BeginEpoch()
	return a
}
