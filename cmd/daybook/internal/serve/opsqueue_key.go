package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/store/applied"
)

// listenerKey is the key of the listener for clients of Opsqueue, whose protocol has no place for a key.
type listenerKey struct {
	name     string // of --opsqueue-key; "": none
	required bool   // also before the first key
	engine   *ingest.Engine
	// permitted is the key that was judged last. Commands carry it, so that one that follows a judgement is that key's, also if the
	// key was revoked in between. It is nil while there are no keys, and for what the server itself does before the first request.
	permitted atomic.Pointer[job.Key]
}

// permit returns why the key does not permit what needs one of the roles, or nil. Everything that the listener does is about the client
// opsqueue.Client and the type opsqueue.Type.
func (k *listenerKey) permit(roles job.Roles) error {
	if k.name == "" {
		if k.required || k.engine.Queries().KeysRequired() {
			return errors.New("this server requires keys, and --opsqueue-key names none for this listener")
		}
		return nil
	}
	key, roles := k.engine.Queries().Key(k.name), roles|job.RolesOf(job.RoleAdmin)
	switch {
	case key == nil:
		return fmt.Errorf("the key %s of --opsqueue-key does not exist: it was never created, or was revoked", k.name)
	case key.Expired(k.engine.Now()):
		return fmt.Errorf("the key %s of --opsqueue-key has expired", k.name)
	case !key.Roles.Has(roles):
		return fmt.Errorf("the key %s of --opsqueue-key has the roles %s; this needs one of %s", k.name, strings.Join(key.Roles.Names(), ", "), strings.Join(roles.Names(), ", "))
	case !key.Has(opsqueue.Client, opsqueue.Type):
		return fmt.Errorf("the key %s of --opsqueue-key is not for the client %s and the type %s", k.name, opsqueue.Client, opsqueue.Type)
	}
	key.Used(k.engine.Now()) // while there is a listener, somebody needs the key
	k.permitted.Store(key)
	return nil
}

// asKey is an engine whose commands are those of the listener's key. Its runners have names that the server gives them, so the prefix
// of the key does not count.
type asKey struct {
	opsqueue.Engine
	key *listenerKey
}

func (e asKey) with(ctx context.Context) context.Context {
	key := e.key.permitted.Load()
	if key == nil {
		return ctx
	}
	return job.WithKey(ctx, &job.Key{Actor: key.Actor, Roles: key.Roles})
}

func (e asKey) Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	return e.Engine.Create(e.with(ctx), c)
}

func (e asKey) ChangeBatch(ctx context.Context, c job.ChangeBatch) (applied.BatchChanged, ingest.Receipt, error) {
	return e.Engine.ChangeBatch(e.with(ctx), c)
}

func (e asKey) MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error) {
	return e.Engine.MoveAll(e.with(ctx), m)
}

func (e asKey) ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	return e.Engine.ClaimUntil(e.with(ctx), c, stop, admit)
}

func (e asKey) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	return e.Engine.CompleteInOrder(e.with(ctx), commands)
}

func (e asKey) Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	return e.Engine.Exchange(e.with(ctx), commands, c)
}
