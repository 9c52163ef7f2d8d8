package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A start must reapply the commands that the store does not have on disk. Small commands would rarely fill a memtable,
// and sweeps and other expensive commands keep the applier busy for seconds before they do. So the store is flushed after
// flushEvery, and after flushWork of the applier's time.
const (
	flushEvery = 5 * time.Second
	flushWork  = 750 * time.Millisecond
)

// history is the part of the log that the store has on disk.
type history struct {
	durable atomic.Uint64 // seq up to which the store is on disk; maintain writes it
	flushed chan struct{} // capacity 1: the log may be cut, because Pebble has written a memtable or disk space is low
	worked  chan struct{} // capacity 1: flushWork has passed
	work    time.Duration // of the applier since the last value in worked; owned by the applier

	cutting sync.Mutex // held while the log is cut; guards needed
	needed  uint64     // a backup reads the log from this seq on; 0: no backup
}

// need keeps the log from this seq on until the next call; 0 keeps nothing. It waits for a cut in progress.
func (h *history) need(seq uint64) {
	h.cutting.Lock()
	defer h.cutting.Unlock()
	h.needed = seq
}

// spent counts the time that the applier spent on a command.
func (h *history) spent(took time.Duration) {
	if h.work += took; h.work >= flushWork {
		h.work = 0
		signal(h.worked)
	}
}

// maintain flushes the store regularly, and cuts the log after each flush, until ctx is done.
func (e *Engine) maintain(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	flush := func() {
		if e.store.Applied() > e.history.durable.Load() {
			if err := e.store.Flush(); err != nil {
				e.logger.Warn("cannot flush the store; trying again", "error", err)
			}
		}
	}
	for {
		select {
		case <-ticker.C:
			flush()
		case <-e.history.worked:
			flush()
		case <-e.history.flushed:
			retain := e.o.JournalRetain
			if e.disk.Low() {
				retain = 0
			}
			e.cut(retain)
		case <-ctx.Done():
			return
		}
	}
}

// Flush makes the store start writing its memtables to disk; see store.Store.Flush. The log may be cut afterwards.
func (e *Engine) Flush() error { return e.store.Flush() }

// FlushWait is Flush, and waits until the store has written its memtables. On a full disk it waits forever.
func (e *Engine) FlushWait() error { return e.store.FlushWait() }

// cut records the seq up to which the store is on disk. It removes the log up to that seq, except for retain bytes and
// the part that a backup reads.
func (e *Engine) cut(retain int64) {
	seq, err := e.store.Durable()
	if err != nil {
		e.logger.Warn("cannot read the cursor on disk; no journal is removed", "error", err)
		return
	}
	e.history.durable.Store(seq)
	e.history.cutting.Lock()
	defer e.history.cutting.Unlock()
	if needed := e.history.needed; needed > 0 {
		seq = min(seq, needed-1)
	}
	volumes, err := e.log.Cut(seq, retain)
	for _, v := range volumes {
		e.logger.Info("removed a volume of the journal", "volume", v.Path, "first", v.First, "last", v.Last)
	}
	if err != nil {
		e.logger.Warn("cannot remove old volumes of the journal; trying again", "error", err)
	}
}
