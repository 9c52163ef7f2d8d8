package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
)

// Offline calls f with an engine that is ready, for a command that changes the data of a stopped server, and stops the engine. The
// errors are those of Open, Run and f.
func Offline(ctx context.Context, o Options, f func(*Engine) error) error {
	e, err := Open(o)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	for e.Ready() != nil && err == nil {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
	if err == nil {
		err = f(e)
	}
	stop()
	return errors.Join(err, <-ended)
}

// RevokeKeys revokes all keys in the data of a stopped server, ends all logins, and returns the number of the keys. Requests still
// need a key then.
func RevokeKeys(ctx context.Context, data string) (revoked int, err error) {
	err = Offline(ctx, Options{Dir: data, AllowClockAhead: true}, func(e *Engine) (err error) {
		if revoked, err = e.deleteDocuments(ctx, job.KeyDocument); err == nil {
			_, err = e.deleteDocuments(ctx, job.LoginDocument)
		}
		return err
	})
	return revoked, err
}

// deleteDocuments deletes all documents of a kind, and returns their number.
func (e *Engine) deleteDocuments(ctx context.Context, kind job.DocumentKind) (deleted int, err error) {
	for more := true; more; {
		var list []document.Named
		if list, more, err = e.Queries().Documents(&job.Scope{}, kind, "", "", 1000); err != nil {
			return deleted, err
		}
		for i := range list {
			if _, _, err := e.DeleteDocument(ctx, job.DeleteDocument{Kind: kind, Client: list[i].Client, Name: list[i].Name}); err != nil {
				return deleted, err
			}
			deleted++
		}
	}
	return deleted, nil
}
