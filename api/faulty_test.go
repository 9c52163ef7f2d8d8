package api

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/api/internal/backend"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
)

// faulty is an engine that fails, or that starts a sweep for every operation on many jobs. Reads fail in CatchUp.
type faulty struct {
	backend.Engine
	mu    sync.Mutex
	err   error
	sweep bool
	// replays: the engine does not know yet which keys there are.
	replays atomic.Bool
}

func (f *faulty) KeysKnown() bool { return !f.replays.Load() && f.Engine.KeysKnown() }

func (f *faulty) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faulty) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faulty) Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Made{}, ingest.Receipt{}, err
	}
	return f.Engine.Create(ctx, c)
}

func (f *faulty) StartCreate(ctx context.Context, c *job.Create) func() (applied.Made, ingest.Receipt, error) {
	return func() (applied.Made, ingest.Receipt, error) { return f.Create(ctx, c) }
}

func (f *faulty) ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Claimed{}, nil, ingest.Receipt{}, err
	}
	return f.Engine.ClaimAdmitted(ctx, c, wait, admit)
}

func (f *faulty) Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Engine.Exchange(ctx, commands, c)
}

func (f *faulty) Tickle(ctx context.Context, t job.Tickle) (applied.Tickled, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Tickled{}, ingest.Receipt{}, err
	}
	return f.Engine.Tickle(ctx, t)
}

func (f *faulty) Complete(ctx context.Context, c job.Complete) (applied.Ended, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Ended{}, ingest.Receipt{}, err
	}
	return f.Engine.Complete(ctx, c)
}

func (f *faulty) CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return nil, ingest.Receipt{}, err
	}
	return f.Engine.CompleteInOrder(ctx, commands)
}

func (f *faulty) Pause(ctx context.Context, p job.Pause) (applied.Paused, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Paused{}, ingest.Receipt{}, err
	}
	return f.Engine.Pause(ctx, p)
}

func (f *faulty) Move(ctx context.Context, m job.Move) (applied.Moved, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Moved{}, ingest.Receipt{}, err
	}
	return f.Engine.Move(ctx, m)
}

func (f *faulty) MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Swept{}, ingest.Receipt{}, err
	}
	if f.sweep {
		return applied.Swept{Sweep: job.NewID(1, 1, 0)}, ingest.Receipt{Seq: 1, At: 1}, nil
	}
	return f.Engine.MoveAll(ctx, m)
}

func (f *faulty) Patch(ctx context.Context, p job.Patch) (applied.Moved, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Moved{}, ingest.Receipt{}, err
	}
	return f.Engine.Patch(ctx, p)
}

func (f *faulty) Switch(ctx context.Context, s job.Switch) (applied.Switched, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.Switched{}, ingest.Receipt{}, err
	}
	return f.Engine.Switch(ctx, s)
}

func (f *faulty) OpenSession(ctx context.Context, o job.OpenSession) (document.Session, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return document.Session{}, ingest.Receipt{}, err
	}
	return f.Engine.OpenSession(ctx, o)
}

func (f *faulty) EndSession(ctx context.Context, s job.EndSession) (ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return ingest.Receipt{}, err
	}
	return f.Engine.EndSession(ctx, s)
}

func (f *faulty) PutDocument(ctx context.Context, p job.PutDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.DocumentChanged{}, ingest.Receipt{}, err
	}
	return f.Engine.PutDocument(ctx, p)
}

func (f *faulty) DeleteDocument(ctx context.Context, d job.DeleteDocument) (applied.DocumentChanged, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.DocumentChanged{}, ingest.Receipt{}, err
	}
	return f.Engine.DeleteDocument(ctx, d)
}

func (f *faulty) DeleteQueue(ctx context.Context, d job.DeleteQueue) (applied.QueueDeleted, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.QueueDeleted{}, ingest.Receipt{}, err
	}
	return f.Engine.DeleteQueue(ctx, d)
}

func (f *faulty) ChangeBatch(ctx context.Context, c job.ChangeBatch) (applied.BatchChanged, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return applied.BatchChanged{}, ingest.Receipt{}, err
	}
	return f.Engine.ChangeBatch(ctx, c)
}

func (f *faulty) RaiseLevel(ctx context.Context) (int, ingest.Receipt, error) {
	if err := f.failure(); err != nil {
		return 0, ingest.Receipt{}, err
	}
	return f.Engine.RaiseLevel(ctx)
}

func (f *faulty) AcceptTime(ctx context.Context) (int64, error) {
	if err := f.failure(); err != nil {
		return 0, err
	}
	return f.Engine.AcceptTime(ctx)
}

func (f *faulty) CatchUp(ctx context.Context, minSeq uint64) error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.Engine.CatchUp(ctx, minSeq)
}

func (f *faulty) Snapshot() (*ingest.Snapshot, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Engine.Snapshot()
}

func (f *faulty) Stats() ingest.Stats {
	if err := f.failure(); err != nil {
		panic(err) // only a programming error can cause it
	}
	return f.Engine.Stats()
}

func (f *faulty) QueueRows() int { return 0 }

func (f *faulty) CommandTimes() map[string]ingest.CommandTimes { return nil }

func (f *faulty) QueueFigures() []store.QueueFigures { return nil }

func (f *faulty) Ready() error {
	if err := f.failure(); err != nil {
		return err
	}
	return f.Engine.Ready()
}
