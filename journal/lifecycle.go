package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// lifecycle is what Run and Close must know of each other.
type lifecycle struct {
	quit    chan struct{} // closed by Close
	stopped chan struct{} // closed when Run has returned
	once    sync.Once     // of Close
	err     error         // result of Close

	mu      sync.Mutex // guards the fields below
	running bool       // Run was called
	closed  bool       // Close was called
}

// begin reports whether Run may run.
func (l *lifecycle) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running || l.closed {
		return false
	}
	l.running = true
	return true
}

// end makes Run end, and later calls of Run fail. It reports whether Run was called.
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

// Run is the committer. It takes the commands that wait, writes them as one batch, syncs once, answers all of them and
// delivers them. It repeats this until ctx is done or Close is called. Then it commits what Propose has taken, refuses
// all other commands with ErrClosed, writes a last mark and returns. It returns an error if writes were down at the
// end. The receiver of Deliver must not end before Run has returned.
//
// The group commit has no timer and no setting: while one group is synced, the commands of the next one arrive. Before
// it takes a group, the committer calls runtime.Gosched once, so that callers that were just answered can propose their
// next command.
func (j *Journal) Run(ctx context.Context) error {
	if !j.life.begin() {
		return fmt.Errorf("run journal: %w, or Run was called before", ErrClosed)
	}
	defer close(j.life.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil && !j.life.quitting() {
		if j.commitWaiting() {
			continue
		}
		timer.Stop()
		if wait, ok := j.due(); ok {
			timer.Reset(wait)
		}
		select {
		case <-j.proposals.wake:
			if j.c.wal == nil && time.Since(j.c.repairedAt) >= minRepairWait {
				j.retry()
			}
		case <-timer.C:
			if j.c.wal == nil {
				j.retry()
			} else {
				j.commit(nil)
			}
		case <-ctx.Done():
		case <-j.life.quit:
		}
	}
	return j.stop()
}

// stop ends the committer; see Run.
func (j *Journal) stop() error {
	j.proposals.close()
	for j.commitWaiting() {
	}
	if j.c.wal == nil {
		j.retry() // a repair that succeeds leaves a tail that is proven
	} else if j.c.lastVerb != MarkVerb {
		j.commit(nil)
	}
	if j.c.wal == nil {
		return fmt.Errorf("stop journal: %w", j.proposals.failure())
	}
	err := j.c.wal.Close()
	j.c.wal = nil
	if err != nil {
		return fmt.Errorf("stop journal: %w", err)
	}
	return nil
}

// Close stops Run, waits for its end, and unlocks the directory. It may be called more than once; each call returns the
// same.
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

// abandon closes a journal whose Run was never called. It answers what Propose has taken; nothing was written.
func (j *Journal) abandon() error {
	for {
		group := j.proposals.takeGroup(nil)
		if len(group) == 0 {
			return j.c.wal.Close()
		}
		j.answer(group, fmt.Errorf("%w: %w", ErrNotStored, ErrClosed))
	}
}
