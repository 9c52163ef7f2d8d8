package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Durable returns the cursor that Pebble has on disk: the journal up to it is no longer needed to start again.
func (s *Store) Durable() (seq uint64, err error) {
	defer catch(&err)
	v := s.viewWith(&pebble.IterOptions{OnlyReadGuaranteedDurable: true})
	defer v.close()
	if value := v.get(metaKey); value != nil {
		seq = decodeMeta(value).cursor
	}
	return seq, nil
}

// Flush has Pebble begin to write what it holds in memory, unless an earlier call still waits for Pebble to begin. It does not wait;
// Options.Flushed is called when a flush is done. Small commands alone would hardly ever fill a memtable, and the journal before them
// would stay.
func (s *Store) Flush() error {
	if !s.flushing.CompareAndSwap(false, true) {
		return nil
	}
	if !s.readers.enter() {
		s.flushing.Store(false)
		return ErrClosed
	}
	go func() { // Pebble may hold whoever asks for a flush back as long as a writer
		defer s.readers.leave()
		defer s.flushing.Store(false)
		if _, err := s.db.AsyncFlush(); err != nil && s.failing != nil {
			s.failing(&Error{"flush", err})
		}
	}()
	return nil
}

// FlushWait has Pebble write what it holds in memory and waits for it: on a full disk without an end.
func (s *Store) FlushWait() error { return <-s.flushed() }

// FlushWithin is FlushWait that gives up after d. Pebble may still do it later.
func (s *Store) FlushWithin(d time.Duration) error { return within(d, "flush", s.flushed()) }

// flushed returns a channel that receives the outcome of a flush.
func (s *Store) flushed() <-chan error {
	outcome := make(chan error, 1)
	if !s.readers.enter() {
		outcome <- ErrClosed
		return outcome
	}
	go func() {
		defer s.readers.leave()
		var err error
		if failed := s.db.Flush(); failed != nil {
			err = &Error{"flush", failed}
		}
		outcome <- err
	}()
	return outcome
}

// within waits for an outcome, d at most.
func within(d time.Duration, op string, outcome <-chan error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-outcome:
		return err
	case <-timer.C:
		return &Error{op, fmt.Errorf("not done within %v", d)}
	}
}

// Checkpoint makes a base in dir, which must not exist: a store of its own, at the cursor of the last commit or a later one.
func (s *Store) Checkpoint(dir string) error {
	if err := s.FlushWait(); err != nil {
		return err
	}
	if !s.readers.enter() {
		return ErrClosed
	}
	defer s.readers.leave()
	if err := s.db.Checkpoint(dir); err != nil {
		return &Error{"checkpoint", err}
	}
	return nil
}

// DiskBytes returns what the store occupies on disk; 0 once it is closed.
func (s *Store) DiskBytes() uint64 {
	if !s.readers.enter() {
		return 0
	}
	defer s.readers.leave()
	return s.db.Metrics().DiskSpaceUsage()
}

// Close ends the store. What was applied and not committed is dropped; what was committed and not flushed is in the journal.
// Close waits for queries, a commit, flushes and compactions that are under way: on a disk that takes no writes without an end. Later
// queries get ErrClosed.
func (s *Store) Close() error {
	s.readers.close()
	s.applying.Lock()
	defer s.applying.Unlock()
	if s.db == nil {
		return nil
	}
	err := errors.Join(s.outgoing.Close(), s.db.Close())
	s.cache.Unref()
	s.db = nil
	return err
}

// CloseWithin is Close that gives up after d. The store's directory is then in use until the process ends; whatever had not been written
// is in the journal.
func (s *Store) CloseWithin(d time.Duration) error {
	outcome := make(chan error, 1)
	go func() { outcome <- s.Close() }()
	return within(d, "close", outcome)
}
