package ingest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// HistoryOfDisk as Options.History is a twentieth of the disk, so that jobs and the journal have the rest, but at most 4 GiB.
const HistoryOfDisk = -1

// historyEvery is the time between two looks at history. Pebble needs some time until the space of a deleted part is free.
const historyEvery = 10 * time.Second

// boundHistory proposes the bounds of history with which this process was started, if the log has others: those of an earlier
// start, or of another process that led.
func (k *timekeeper) boundHistory(ctx context.Context) error {
	h := k.e.store.Totals().History
	to := job.SetHistory{Bytes: k.e.o.History, AgeMs: cmp.Or(k.e.o.HistoryAge.Milliseconds(), job.DefaultHistoryMs)}
	if to.Bytes == HistoryOfDisk {
		to.Bytes = k.e.historyOfDisk(h.MaxBytes)
	}
	if to.Bytes == 0 || h.MaxBytes == to.Bytes && h.MaxAgeMs == to.AgeMs {
		return nil
	}
	_, _, err := k.e.decideAsLeader(ctx, k.term, to)
	return err
}

// historyOfDisk returns the share of the disk that history has, or 0 if the disk cannot be read. On some file systems the size of the
// disk changes with the files of others. So the present bound stays if it differs by less than an eighth.
func (e *Engine) historyOfDisk(present int64) int64 {
	if e.disk.Total() == 0 {
		e.disk.Look()
	}
	share := int64(min(e.disk.Total()/20, 4<<30))
	if share == 0 {
		return 0
	}
	share = max(share, job.MinHistoryBytes)
	if share-share/8 < present && present < share+share/8 {
		return present
	}
	return share
}

// keepHistory looks at history when a term begins, and every historyEvery, because the bounds of an earlier leader may be stored late.
// It deletes the oldest part if that is too old, or if the disk has little space.
func (k *timekeeper) keepHistory(ctx context.Context) {
	if time.Since(k.looked) < historyEvery {
		return
	}
	k.looked = time.Now()
	err := k.boundHistory(ctx)
	h := k.e.store.Totals().History
	tight := k.e.isTight(&h)
	if err == nil && h.Next != 0 && (tight || h.NextSince+h.MaxAgeMs <= k.e.log.Now()) {
		_, _, err = k.e.decideAsLeader(ctx, k.term, job.SetHistory{Before: h.Next})
		if err == nil && tight {
			k.e.logger.Warn("disk space is low: the oldest part of the history of jobs was deleted", "before_seq", h.Next)
		}
	}
	if err != nil && !errors.Is(err, ErrNotLeading) && ctx.Err() == nil {
		k.e.logger.Warn("cannot bound the history of jobs; trying again", "error", err)
	}
}

// isTight reports whether history should make space: the disk has little, and history has more than a thousandth of the disk.
// If other files fill the disk, deleting the rest of history would not help.
func (e *Engine) isTight(h *document.History) bool {
	return e.disk.Tight() && h.Bytes > int64(e.disk.Total()/1000)
}
