package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookq/daybook/job/handler"
	"github.com/daybookq/daybook/runner/sandbox"
	"github.com/daybookq/daybook/runner/script"
)

// TrialPatience bounds how long a script may take to load here, even if its timeout_ms is longer: a person waits for
// the command.
var TrialPatience = 10 * time.Second // a test makes it shorter

// TryHandler returns the error of a script that cannot be loaded. It does not try other handlers, nor languages that
// this machine lacks.
func TryHandler(ctx context.Context, document *handler.Document) error {
	if document.Kind != handler.Script || document.Check() != nil { // the server reports errors in a document
		return nil
	}
	box, err := sandbox.New(sandbox.Auto)
	if err != nil {
		return fmt.Errorf("load the script: %w", err)
	}
	pool, err := script.NewPool(script.Settings{Sandbox: box, MaxContexts: 1})
	if err != nil {
		return fmt.Errorf("load the script: %w", err)
	}
	if pool.Check(document.Lang) == nil {
		trial, cancel := context.WithTimeout(ctx, TrialPatience)
		defer cancel()
		err = pool.Try(trial, script.Handler{ID: "new", Document: *document})
		if err != nil && ctx.Err() == nil && trial.Err() != nil {
			err = fmt.Errorf("it was still loading after %v, and was ended. Loading runs everything outside of handle: move loops, waits and slow work into handle", TrialPatience)
		}
		if err != nil {
			err = fmt.Errorf("the script cannot be loaded, so it was not stored; --no-check stores it\n%w", err)
		}
	}
	return errors.Join(err, pool.Close())
}
