package store

import (
	"sync"
	"time"

	"github.com/daybookq/daybook/store/internal/check"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/machine"
	"github.com/daybookq/daybook/store/query"
)

// Store keeps the state of all jobs and its indexes. One goroutine applies and commits. Any goroutine may query.
type Store struct {
	*query.Queries
	db *lsm.DB
	// Apply, Commit and Close hold writing. No query takes it, because Commit waits for Pebble while holding it.
	writing sync.Mutex
	machine *machine.Machine
	command machine.Applying // the current command
	pending bool             // commands were applied since the last commit
	broken  error            // why neither Apply nor Commit can continue: the overlay may hold half a command
	closed  bool

	beforeApply func(seq uint64) // Options.BeforeApply
}

// Flush makes Pebble begin to write its memtable to disk, unless an earlier call still waits for Pebble to begin. It
// does not wait; Options.Flushed is called when a flush is done. Without Flush, a server with only small commands would
// hardly ever fill a memtable, and could not delete the journal before them.
func (s *Store) Flush() error { return s.db.Flush() }

// FlushWait writes Pebble's memtable to disk, and waits for it. On a full disk it waits without a time limit.
func (s *Store) FlushWait() error { return s.db.FlushWait() }

// FlushWithin is FlushWait with the time limit d. It also gives up when the disk is full. Pebble may still finish the
// flush later.
func (s *Store) FlushWithin(d time.Duration) error { return s.db.FlushWithin(d) }

// Checkpoint makes a base in dir, which must not exist: an independent store, at the cursor of the last commit or a
// later one. It shares its tables with this store by hard links, if the file system supports them. It first flushes,
// and fails if that takes longer than limit.
func (s *Store) Checkpoint(dir string, limit time.Duration) error { return s.db.Checkpoint(dir, limit) }

// Close closes the store. It drops uncommitted commands; commands that are not flushed are in the journal. Close waits
// for running queries, commits, flushes and compactions: without a time limit if the disk takes no writes. Later
// queries get ErrClosed.
func (s *Store) Close() error {
	s.db.Drain()
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.db.Close()
}

// CloseWithin is Close with the time limit d. It also gives up when the disk is full. The store's directory is then in
// use until the process ends. All unwritten changes are in the journal.
func (s *Store) CloseWithin(d time.Duration) error { return s.db.CloseWithin(d, s.Close) }

// Check looks at everything the store holds and reports every broken invariant; see package check. report is called with each
// problem and returns false to stop. Check reads one moment of the database; Apply may continue.
func (s *Store) Check(report func(problem string) bool) (problems int, err error) {
	return check.Run(s.db, s.machine.Bounds, report)
}
