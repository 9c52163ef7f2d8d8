package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/daybookq/daybook/job"
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

// RevokeKeys revokes all keys in the data of a stopped server, and returns their number. Requests still need a key then.
func RevokeKeys(ctx context.Context, data string) (revoked int, err error) {
	err = Offline(ctx, Options{Dir: data, AllowClockAhead: true}, func(e *Engine) error {
		for {
			keys, more, err := e.Queries().Documents(&job.Scope{}, job.KeyDocument, "", "", 1000)
			if err != nil {
				return err
			}
			for i := range keys {
				if _, _, err := e.DeleteDocument(ctx, job.DeleteDocument{Kind: job.KeyDocument, Name: keys[i].Name}); err != nil {
					return err
				}
				revoked++
			}
			if !more {
				return nil
			}
		}
	})
	return revoked, err
}
