package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// OpenSession opens a session; see job.Once. The error is job.TooManySessions if the limit of open sessions is reached.
func (e *Engine) OpenSession(ctx context.Context, o job.OpenSession) (document.Session, Receipt, error) {
	opened, receipt, err := decideAs[applied.SessionOpened](ctx, e, o)
	if err == nil && opened.Refusal != job.Granted {
		err = opened.Refusal
	}
	return opened.Session, receipt, err
}

// EndSession ends a session. Its claims keep their jobs. The error is job.SessionNotFound if the session does not exist.
func (e *Engine) EndSession(ctx context.Context, s job.EndSession) (Receipt, error) {
	ended, receipt, err := decideAs[applied.SessionEnded](ctx, e, s)
	if err == nil && ended.Refusal != job.Granted {
		err = ended.Refusal
	}
	return receipt, err
}
