package journal

import (
	"errors"
	"fmt"
	"sync"
)

// lifecycle coordinates Run and Close.
type lifecycle struct {
	quit    chan struct{} // closed by Close
	stopped chan struct{} // closed when Run has returned
	once    sync.Once     // of Close
	err     error         // result of Close

	mu      sync.Mutex // guards the fields below
	running bool       // Run was called
	closed  bool       // Close was called
}

// begin reports whether Run may start.
func (l *lifecycle) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running || l.closed {
		return false
	}
	l.running = true
	return true
}

// end makes Run return, and later calls of Run fail. It reports whether Run was called.
func (l *lifecycle) end() (running bool) {
	close(l.quit)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return l.running
}

func (l *lifecycle) quitting() bool {
	select {
	case <-l.quit:
		return true
	default:
		return false
	}
}

// stop ends the committer; see Run.
func (j *Journal) stop() error {
	j.proposals.close()
	for j.commitWaiting() {
	}
	if j.c.wal == nil {
		j.retry() // a successful repair leaves a proven tail
	} else if j.c.lastVerb != MarkVerb {
		j.commit(nil)
	}
	if j.c.wal == nil {
		return fmt.Errorf("stop journal: %w", j.proposals.failure())
	}
	err := errors.Join(j.removeRoom(), j.c.wal.Close())
	j.c.wal = nil
	j.c.closeLast()
	if err != nil {
		return fmt.Errorf("stop journal: %w", err)
	}
	return nil
}

// Close stops Run, waits for its end, and unlocks the directory. It may be called more than once; every call returns the
// same result.
func (j *Journal) Close() error {
	j.life.once.Do(func() {
		running := j.life.end()
		j.proposals.close()
		var err error
		if running {
			<-j.life.stopped
		} else {
			err = j.abandon()
		}
		j.life.err = errors.Join(err, j.lock.Close())
	})
	return j.life.err
}

// abandon closes a journal whose Run was never called. It answers the commands that Propose has taken; nothing was
// written.
func (j *Journal) abandon() error {
	for {
		group := j.proposals.takeGroup(nil)
		if len(group) == 0 {
			return j.c.wal.Close()
		}
		j.answer(group, fmt.Errorf("%w: %w", ErrNotStored, ErrClosed))
	}
}
