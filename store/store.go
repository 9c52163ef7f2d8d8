package store

import (
	"sync"
	"time"
)

// Store keeps the state of all jobs and its indexes. One goroutine applies and commits; any goroutine may query.
type Store struct {
	*Queries
	// writing is held through Apply and Commit, and by Close. No query takes it, since Commit waits for Pebble while
	// it holds it.
	writing sync.Mutex
	machine *machine
	command applying // that is applied
	pending bool     // commands were applied since the last commit
	broken  error    // why neither Apply nor Commit can continue: the overlay may hold half a command
	closed  bool

	beforeApply func(seq uint64) // Options.BeforeApply
}

// Flush lets Pebble begin to write what it holds in memory, unless an earlier call still waits for Pebble to begin. It
// does not wait; Options.Flushed is called when a flush is done. Small commands alone would hardly ever fill a
// memtable, and the journal before them would stay.
func (s *Store) Flush() error { return s.db.Flush() }

// FlushWait writes what Pebble holds in memory to disk, and waits for it: on a full disk without a limit of time.
func (s *Store) FlushWait() error { return s.db.FlushWait() }

// FlushWithin is FlushWait that gives up after d, or when the disk is full. Pebble may still do it later.
func (s *Store) FlushWithin(d time.Duration) error { return s.db.FlushWithin(d) }

// Checkpoint makes a base in dir, which must not exist: a store of its own, at the cursor of the last commit or a later
// one. It shares its tables with this store by hard links, if the file system has them. It gives up if the flush that it
// begins with takes longer than limit.
func (s *Store) Checkpoint(dir string, limit time.Duration) error { return s.db.Checkpoint(dir, limit) }

// Close closes the store. What was applied and not committed is dropped; what was committed and not flushed is in the
// journal. Close waits for queries, a commit, flushes and compactions that are under way: on a disk that takes no
// writes without a limit of time. Later queries get ErrClosed.
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

// CloseWithin is Close that gives up after d, or when the disk is full. The store's directory is then in use until the process ends; everything
// that had not been written is in the journal.
func (s *Store) CloseWithin(d time.Duration) error { return s.db.CloseWithin(d, s.Close) }
