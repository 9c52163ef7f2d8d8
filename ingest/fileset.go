package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// PutFileset stores a version of a fileset, whose manifest and blobs the caller has stored. The error is
// job.TooManyFilesets if there is no room for it.
func (e *Engine) PutFileset(ctx context.Context, p job.PutFileset) (store.FilesetPut, Receipt, error) {
	put, receipt, err := decideAs[store.FilesetPut](ctx, e, p)
	if err == nil && put.Refusal != job.Granted {
		err = put.Refusal
	}
	return put, receipt, err
}

// DeleteFileset deletes all versions of a fileset. The error is job.FilesetNotFound if there is no such fileset.
func (e *Engine) DeleteFileset(ctx context.Context, d job.DeleteFileset) (Receipt, error) {
	deleted, receipt, err := decideAs[store.FilesetDeleted](ctx, e, d)
	if err == nil && deleted.Refusal != job.Granted {
		err = deleted.Refusal
	}
	return receipt, err
}
