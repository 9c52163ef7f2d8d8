package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
)

// PutHandler stores a version of a handler. The error is job.TooManyHandlers if there is no room for it.
func (e *Engine) PutHandler(ctx context.Context, p job.PutHandler) (applied.HandlerPut, Receipt, error) {
	put, receipt, err := decideAs[applied.HandlerPut](ctx, e, p)
	if err == nil && put.Refusal != job.Granted {
		err = put.Refusal
	}
	return put, receipt, err
}

// DeleteHandler deletes all versions of a handler. The error is job.HandlerNotFound if the handler does not exist.
func (e *Engine) DeleteHandler(ctx context.Context, d job.DeleteHandler) (Receipt, error) {
	deleted, receipt, err := decideAs[applied.HandlerDeleted](ctx, e, d)
	if err == nil && deleted.Refusal != job.Granted {
		err = deleted.Refusal
	}
	return receipt, err
}
