package blob

import (
	"fmt"
	"sync"
)

// tally counts the bytes of several stores that share a quota.
type tally struct {
	quota int64 // 0: none

	mu   sync.Mutex // guards used. A holder of a Dir's mutex may take this one
	used int64
}

func (t *tally) bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// charge counts more bytes, or returns ErrQuota and counts none.
func (t *tally) charge(more int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.fits(more)
	if err == nil {
		t.used += more
	}
	return err
}

// fits returns ErrQuota if there is no room for more bytes. The caller holds the mutex.
func (t *tally) fits(more int64) error {
	if t.quota > 0 && more > 0 && t.used+more > t.quota {
		return fmt.Errorf("%w: all clients together use %d of %d bytes", ErrQuota, t.used, t.quota)
	}
	return nil
}

// count counts bytes without regard to the quota.
func (t *tally) count(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used += n
}

// charge counts more bytes, or returns ErrQuota and counts none. The caller holds the mutex of the store.
func (s *Dir) charge(more int64) error {
	if err := s.fitsAlone(more); err != nil {
		return err
	}
	if s.all != nil {
		if err := s.all.charge(more); err != nil {
			return err
		}
	}
	s.used += more
	return nil
}

func (s *Dir) fitsAlone(more int64) error {
	if quota := s.o.QuotaBytes; quota > 0 && more > 0 && s.used+more > quota {
		return fmt.Errorf("%w: %d of %d bytes are used", ErrQuota, s.used, quota)
	}
	return nil
}

// fits returns ErrQuota if there is no room for more bytes. The caller holds the mutex of the store.
func (s *Dir) fits(more int64) error {
	if err := s.fitsAlone(more); err != nil || s.all == nil {
		return err
	}
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.all.fits(more)
}

// count counts bytes without regard to quotas. The caller holds the mutex of the store, or is its only user.
func (s *Dir) count(n int64) {
	s.used += n
	if s.all != nil {
		s.all.count(n)
	}
}
