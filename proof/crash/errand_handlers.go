package crash

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/daybookq/daybook/client"
	"github.com/daybookq/daybook/job/handler"
)

// This file has the steps of an errand that concern its handler.

// putHandler stores a version of the handler of the user's type. A repeat after a lost answer finds the same version.
func (e *errands) putHandler() step {
	e.programs++
	program := fmt.Sprintf("p%d", e.programs)
	return step{"store a handler", func(ctx context.Context) error {
		h, err := e.c.PutHandler(ctx, ownClient, e.name, handler.Document{Kind: handler.Exec, Program: program})
		if err != nil {
			return err
		}
		if h.Version != e.handler.Version+1 || !h.Newest || h.Document.Program != program {
			return impossiblef("after version %d, a handler is stored as %+v", e.handler.Version, h)
		}
		e.handler = h
		return nil
	}}
}

// readHandler reads the handler, which must be the version that was stored last.
func (e *errands) readHandler() step {
	return step{"read the handler", func(ctx context.Context) error {
		h, err := e.c.Handler(ctx, ownClient, e.name)
		switch {
		case errors.Is(err, client.ErrNotFound) && e.handler.Version == 0:
			return nil
		case errors.Is(err, client.ErrNotFound):
			return impossiblef("handler %s, version %d, no longer exists", e.handler.ID, e.handler.Version)
		case err != nil:
			return err
		case h.ID != e.handler.ID || h.Version != e.handler.Version || h.Digest != e.handler.Digest || !reflect.DeepEqual(h.Document, e.handler.Document):
			return impossiblef("handler %+v reads as %+v", e.handler, h)
		}
		return nil
	}}
}

// deleteHandler deletes the handler.
func (e *errands) deleteHandler() step {
	return e.removes("delete the handler", func(ctx context.Context) error { return e.once.DeleteHandler(ctx, ownClient, e.name) },
		func() bool { return false }, func() { e.handler = client.StoredHandler{} })
}
