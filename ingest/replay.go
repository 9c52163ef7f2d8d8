package ingest

import (
	"context"
	"fmt"
	"iter"

	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// replay applies and counts the commands of the log that the store has not applied.
func (e *Engine) replay(ctx context.Context) error {
	r := replayer{store: e.store, commit: e.commit, progress: func(_, n uint64) { e.counters.replayed.Store(n) }}
	n, err := r.log(ctx, e.log)
	e.counters.replayed.Store(n)
	e.keysKnown.Store(err == nil)
	return err
}

// KeysKnown reports whether the engine has applied the log that it found when it started. Before that it may know nothing of keys
// that exist, and keys that were revoked.
func (e *Engine) KeysKnown() bool { return e.keysKnown.Load() }

// Replay applies records and returns their number. The first record must be the first that s has not applied. Replay
// calls progress after each 4 MiB with the last seq that was applied, and the number of records so far.
func Replay(ctx context.Context, s *store.Store, records iter.Seq2[journal.Record, error], progress func(seq, n uint64)) (n uint64, err error) {
	r := replayer{store: s, commit: s.Commit, progress: progress}
	return r.apply(ctx, records)
}

// replayer applies the records of a log to a store while no process writes to the log.
type replayer struct {
	store    *store.Store
	commit   func() error
	progress func(seq, n uint64) // called after each 4 MiB; see Replay
}

// log applies the records of a log that the store has not applied, and returns their number.
func (r *replayer) log(ctx context.Context, l Log) (n uint64, err error) {
	from := r.store.Applied() + 1
	if first := l.First(); first > from {
		return 0, fmt.Errorf("the store's cursor is %d, and the journal begins with record %d; next step: rebuild the store from a base with a cursor of at least %d", from-1, first, first-1)
	}
	return r.apply(ctx, l.Records(from))
}

// apply applies records in order, and returns their number.
func (r *replayer) apply(ctx context.Context, records iter.Seq2[journal.Record, error]) (n uint64, err error) {
	for record, err := range records {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return n, err
		}
		record.Body = append([]byte(nil), record.Body...) // the store uses it until the commit
		if _, err := applyRecord(r.store, &record); err != nil {
			return n, err
		}
		n++
		if r.store.CommitDue() {
			if err := r.commit(); err != nil {
				return n, err
			}
			r.progress(record.Seq, n)
			r.store.TakeSilent() // no runner has a connection yet
		}
	}
	r.store.TakeReadied() // no claim is parked yet
	r.store.TakeSilent()
	return n, r.commit()
}
