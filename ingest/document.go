package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// PutDocument stores a version of a named document. If the documents of the kind are blobs, the caller must have stored
// the blob before. The error is job.VersionDiffers if the condition does not hold, or the kind's TooMany if there is no
// room.
func (e *Engine) PutDocument(ctx context.Context, p job.PutDocument) (applied.DocumentChanged, Receipt, error) {
	return e.changeDocument(ctx, p)
}

// DeleteDocument deletes a named document. The error is job.VersionDiffers if the condition does not hold, or the kind's
// NotFound if there is no such document.
func (e *Engine) DeleteDocument(ctx context.Context, d job.DeleteDocument) (applied.DocumentChanged, Receipt, error) {
	return e.changeDocument(ctx, d)
}

func (e *Engine) changeDocument(ctx context.Context, cmd job.Command) (applied.DocumentChanged, Receipt, error) {
	changed, receipt, err := decideAs[applied.DocumentChanged](ctx, e, cmd)
	if err == nil && changed.Refusal != job.Granted {
		err = changed.Refusal
	}
	return changed, receipt, err
}
