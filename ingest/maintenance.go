package ingest

import (
	"context"
	"sync/atomic"
	"time"
)

// flushEvery bounds what a start has to replay: small commands alone would hardly ever fill a memtable.
const flushEvery = 5 * time.Second

// history is how far the store is on disk. The log up to there is history.
type history struct {
	durable atomic.Uint64 // seq that the store has on disk; written by maintain
	flushed chan struct{} // capacity 1: the log may be cut, because Pebble wrote a memtable or because space is short
}

// maintain flushes the store regularly, and cuts the log after each flush, until ctx is done.
func (e *Engine) maintain(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if e.store.Applied() > e.history.durable.Load() {
				if err := e.store.Flush(); err != nil {
					e.logger.Warn("cannot flush the store; trying again", "error", err)
				}
			}
		case <-e.history.flushed:
			retain := e.o.JournalRetain
			if e.disk.low.Load() {
				retain = 0
			}
			e.cut(retain)
		case <-ctx.Done():
			return
		}
	}
}

// Flush has the store begin to write to disk what it holds in memory; see store.Store.Flush. The log may be cut after
// it.
func (e *Engine) Flush() error { return e.store.Flush() }

// FlushWait is Flush that waits until the store has written all: on a full disk without an end.
func (e *Engine) FlushWait() error { return e.store.FlushWait() }

// cut notes how far the store is on disk, and removes the log up to there except for retain bytes.
func (e *Engine) cut(retain int64) {
	seq, err := e.store.Durable()
	if err != nil {
		e.logger.Warn("cannot read the durable cursor; the journal stays", "error", err)
		return
	}
	e.history.durable.Store(seq)
	volumes, err := e.log.Cut(seq, retain)
	for _, v := range volumes {
		e.logger.Info("cut a volume from the journal", "volume", v.Path, "first", v.First, "last", v.Last)
	}
	if err != nil {
		e.logger.Warn("cannot cut the journal", "error", err)
	}
}
