package api

import (
	"context"
	"time"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store"
)

// Engine is what the API needs of the running queue; *ingest.Engine is it. Reads wait until the state includes what was synced
// when they were called, and at least minSeq.
type Engine interface {
	Create(ctx context.Context, c *job.Create) (store.Made, ingest.Receipt, error)
	ClaimAdmitted(ctx context.Context, c job.Claim, wait time.Duration, admit func(payloadBytes int64) error) (store.Claimed, []job.Job, ingest.Receipt, error)
	Tickle(ctx context.Context, t job.Tickle) (store.Tickled, ingest.Receipt, error)
	Complete(ctx context.Context, c job.Complete) (store.Ended, ingest.Receipt, error)
	CompleteInOrder(ctx context.Context, commands []job.Complete) ([]store.Ended, ingest.Receipt, error)
	Pause(ctx context.Context, p job.Pause) (store.Paused, ingest.Receipt, error)
	Move(ctx context.Context, m job.Move) (store.Moved, ingest.Receipt, error)
	MoveAll(ctx context.Context, m job.Move) (store.Swept, ingest.Receipt, error)
	Patch(ctx context.Context, p job.Patch) (store.Moved, ingest.Receipt, error)
	DeleteQueue(ctx context.Context, d job.DeleteQueue) (store.QueueDeleted, ingest.Receipt, error)
	Switch(ctx context.Context, s job.Switch) (store.Switched, ingest.Receipt, error)
	OpenSession(ctx context.Context, o job.OpenSession) (store.Session, ingest.Receipt, error)
	EndSession(ctx context.Context, s job.EndSession) (ingest.Receipt, error)
	Session(ctx context.Context, minSeq uint64, id job.ID) (store.Session, error)
	Sweep(ctx context.Context, minSeq uint64, id job.ID) (store.Sweep, error)
	Sweeps(ctx context.Context, minSeq uint64) ([]store.Sweep, error)

	CatchUp(ctx context.Context, minSeq uint64) error
	JobWithin(ctx context.Context, minSeq uint64, id job.ID, room int64) (doc job.Job, fits bool, err error)
	Batch(ctx context.Context, minSeq uint64, id job.ID) (store.Batch, error)
	Queue(ctx context.Context, minSeq uint64, client, typ string) (store.Queue, error)
	Queues(ctx context.Context, minSeq uint64, client, afterClient, afterType string, limit int) (queues []store.Queue, more bool, err error)
	List(ctx context.Context, minSeq uint64, f store.Filter) (jobs []job.Job, next job.ID, err error)
	ClaimDocument(ctx context.Context, minSeq uint64, id job.ID, parts store.Parts) (store.Claim, []job.Job, error)
	Runners(ctx context.Context, minSeq uint64, after string, limit int) (runners []store.Runner, more bool, err error)
	WaitingTypes(ctx context.Context, minSeq uint64, client, after string, limit int) (types []store.WaitingType, more bool, err error)

	AcceptTime(ctx context.Context) (offsetMs int64, err error)

	// These never wait. Now is the journal's time, unix ms, by which jobs are stamped.
	Now() int64
	ClockOffset() time.Duration
	Stats() ingest.Stats
	Ready() error
}
