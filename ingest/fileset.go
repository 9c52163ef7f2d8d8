package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// PutFileset stores a version of a fileset. The caller must have stored its manifest and blobs. The error is
// job.TooManyFilesets if there is no room for a new fileset.
func (e *Engine) PutFileset(ctx context.Context, p job.PutFileset) (applied.FilesetPut, Receipt, error) {
	put, receipt, err := decideAs[applied.FilesetPut](ctx, e, p)
	if err == nil && put.Refusal != job.Granted {
		err = put.Refusal
	}
	return put, receipt, err
}

// DeleteFileset deletes all versions of a fileset. The error is job.FilesetNotFound if the fileset does not exist.
func (e *Engine) DeleteFileset(ctx context.Context, d job.DeleteFileset) (Receipt, error) {
	deleted, receipt, err := decideAs[applied.FilesetDeleted](ctx, e, d)
	if err == nil && deleted.Refusal != job.Granted {
		err = deleted.Refusal
	}
	return receipt, err
}
