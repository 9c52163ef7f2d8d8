package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
)

// HistoryOfDisk as Options.History is a twentieth of the disk, so that jobs and the journal have the rest, but at most 4 GiB.
const HistoryOfDisk = -1

// trimEvery is the time between two commands that delete the oldest part of history. Pebble needs some time until the space is free.
const trimEvery = 10 * time.Second

// boundHistory proposes the bounds of history with which this process was started, if the log has others: those of an earlier
// start, or of another process that led.
func (k *timekeeper) boundHistory(ctx context.Context, term uint64) error {
	to := job.SetHistory{Bytes: k.e.o.History, AgeMs: k.e.o.HistoryAge.Milliseconds()}
	if to.Bytes == HistoryOfDisk {
		if k.e.disk.Total() == 0 {
			k.e.disk.Look()
		}
		if to.Bytes = int64(min(k.e.disk.Total()/20, 4<<30)); to.Bytes != 0 { // it cannot be read
			to.Bytes = max(to.Bytes, job.MinHistoryBytes)
		}
	}
	h := k.e.store.Totals().History
	if to.Bytes == 0 || h.MaxBytes == to.Bytes && h.MaxAgeMs == to.AgeMs {
		return nil
	}
	_, _, err := k.e.decideAsLeader(ctx, term, to)
	return err
}

// trimHistory deletes the oldest part of history every trimEvery while the disk has little space.
func (k *timekeeper) trimHistory(ctx context.Context) {
	if !k.e.disk.Tight() || time.Since(k.trimmed) < trimEvery {
		return
	}
	h := k.e.store.Totals().History
	if h.Next == 0 {
		return
	}
	k.trimmed = time.Now()
	_, _, err := k.e.decideAsLeader(ctx, k.term, job.SetHistory{Before: h.Next})
	switch {
	case err == nil:
		k.e.logger.Warn("disk space is low: the oldest part of the history of jobs was deleted", "before_seq", h.Next)
	case !errors.Is(err, ErrNotLeading) && ctx.Err() == nil:
		k.e.logger.Warn("cannot delete the oldest part of the history of jobs; trying again", "error", err)
	}
}
