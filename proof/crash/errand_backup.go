package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/ingest/backup"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/journal"
	"github.com/daybookq/daybook/store"
)

// backUp makes a backup, verifies and restores it. The restored state must have the user's job as it was last
// acknowledged.
func (e *errands) backUp() row {
	return own("make and restore a backup", func(ctx context.Context) (err error) {
		dir, err := os.MkdirTemp("", "daybook-crash-backup-*")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		r, err := e.c.Backup(ctx)
		if errors.Is(err, client.ErrConflict) { // another user makes a backup
			return errNoAnswer
		}
		if err != nil {
			return err
		}
		made := filepath.Join(dir, time.Now().UTC().Format("20060102T150405.000Z"))
		if err := os.Mkdir(made, 0o750); err != nil {
			return errors.Join(err, r.Close())
		}
		_, err = backup.Receive(made, r, "")
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if err := backup.Seal(made, nil); err != nil {
			return err
		}
		if _, err := backup.Verify(ctx, made, true); err != nil {
			return unlessEnded(ctx, "a complete backup: %v", err)
		}
		data := filepath.Join(dir, "data")
		if _, err := backup.Restore(ctx, made, data, backup.RestoreOptions{}); err != nil {
			return unlessEnded(ctx, "a complete backup cannot be restored: %v", err)
		}
		return e.lookInto(ctx, data)
	})
}

// unlessEnded returns an impossible error, since a right backup cannot cause it, or the error of ctx if that ended the
// work early.
func unlessEnded(ctx context.Context, format string, args ...any) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return impossiblef(format, args...)
}

// lookInto compares the user's job with the data in a restored data directory.
func (e *errands) lookInto(ctx context.Context, data string) (err error) {
	if e.job.id == "" {
		return nil
	}
	id, err := job.ParseID(e.job.id)
	if err != nil {
		return err
	}
	s, err := store.Open(ingest.StoreDir(data), store.Options{})
	if err != nil {
		return impossiblef("the restored store: %v", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := ingest.Replay(ctx, s, journal.Scan(ingest.JournalDir(data), s.Applied()+1), func(uint64, uint64) {}); err != nil {
		return unlessEnded(ctx, "the restored journal: %v", err)
	}
	j, err := s.Job(id)
	switch {
	case errors.Is(err, job.NotFound) && e.job.gone:
		return nil
	case err != nil:
		return impossiblef("the backup does not have job %v: %v", &e.job, err)
	case e.job.gone, j.Status.String() != e.job.status, string(j.Payload) != e.job.payload:
		return impossiblef("in the backup, job %v has the status %s and the payload %.100q", &e.job, j.Status, j.Payload)
	}
	return nil
}
