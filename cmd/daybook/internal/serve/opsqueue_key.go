package serve

import (
	"context"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/opsqueue"
	"github.com/daybookq/daybook/store/applied"
)

// asKey is an engine whose commands are those of a key. The listener for clients of Opsqueue has one, because its protocol has no
// place for a key. Its runners have names that the server gives them, so the prefix of the key does not count.
type asKey struct {
	opsqueue.Engine
	key func() *job.Key // nil: there are no keys
}

func (e asKey) with(ctx context.Context) context.Context {
	key := e.key()
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
