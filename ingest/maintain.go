package ingest

import (
	"context"
	"time"
)

// flushEvery bounds what a start has to replay: small commands alone would hardly ever fill a memtable.
const flushEvery = 5 * time.Second

// maintain has the store flushed now and then, and cuts the journal behind what is flushed.
func (e *Engine) maintain(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if e.store.Applied() > e.durable.Load() {
				if err := e.store.Flush(); err != nil {
					e.log.Warn("cannot flush the store; trying again", "error", err)
				}
			}
		case <-e.flushed:
			retain := e.o.JournalRetain
			if e.diskLow.Load() {
				retain = 0
			}
			e.cut(retain)
		case <-ctx.Done():
			return
		}
	}
}

// cut notes how far the store is on disk and gives up the journal before that, less what is to be retained.
func (e *Engine) cut(retain int64) {
	seq, err := e.store.Durable()
	if err != nil {
		e.log.Warn("cannot read the durable cursor; the journal stays", "error", err)
		return
	}
	e.durable.Store(seq)
	volumes, err := e.journal.Cut(seq, retain)
	for _, v := range volumes {
		e.log.Info("cut a volume from the journal", "volume", v.Path, "first", v.First, "last", v.Last)
	}
	if err != nil {
		e.log.Warn("cannot cut the journal", "error", err)
	}
}
