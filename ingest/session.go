package ingest

import (
	"context"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// OpenSession opens a session; see job.Once. job.TooManySessions when as many are open as may.
func (e *Engine) OpenSession(ctx context.Context, o job.OpenSession) (store.Session, Receipt, error) {
	opened, receipt, err := decideAs[store.SessionOpened](ctx, e, o)
	if err == nil && opened.Refusal != job.Granted {
		err = opened.Refusal
	}
	return opened.Session, receipt, err
}

// EndSession ends a session; job.SessionNotFound when there is none. Its claims keep the jobs that they hold.
func (e *Engine) EndSession(ctx context.Context, s job.EndSession) (Receipt, error) {
	ended, receipt, err := decideAs[store.SessionEnded](ctx, e, s)
	if err == nil && ended.Refusal != job.Granted {
		err = ended.Refusal
	}
	return receipt, err
}
