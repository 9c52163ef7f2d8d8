package opsqueue

import (
	"context"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store"
)

// Engine changes the queue. *ingest.Engine implements it.
type Engine interface {
	Create(ctx context.Context, c *job.Create) (store.Made, ingest.Receipt, error)
	ChangeBatch(ctx context.Context, c job.ChangeBatch) (store.BatchChanged, ingest.Receipt, error)
	MoveAll(ctx context.Context, m job.Move) (store.Swept, ingest.Receipt, error)
	ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(payloadBytes int64) error) (store.Claimed, []runs.Run, ingest.Receipt, error)
	CompleteInOrder(ctx context.Context, commands []job.Complete) ([]store.Ended, ingest.Receipt, error)
	Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error)
	CatchUp(ctx context.Context, minSeq uint64) error
	Now() int64
	Ready() error
}

// Queries reads the state. *store.Queries implements it.
type Queries interface {
	Batch(id job.ID) (store.Batch, error)
	Batches(f store.BatchFilter) (docs []store.Batch, next store.BatchPlace, err error)
	BatchCounts(client, typ string) ([job.NumBatchStatus]int64, error)
	BatchMetadata(id job.ID) ([]byte, error)
	BatchOfSnowflake(snowflake int64) (job.ID, error)
	Job(id job.ID) (job.Job, error)
	JobOf(batch job.ID, line int64) (job.ID, error)
	LineOf(id job.ID) (batch job.ID, line int64, err error)
	Queue(client, typ string) (store.Queue, error)
	Runner(name string) (store.Runner, error)
	Runners(afterName string, limit int) (list []store.Runner, more bool, err error)
}

// Client and Type name the queue of chunks.
const (
	Client = "opsqueue"
	Type   = "chunk"
)
