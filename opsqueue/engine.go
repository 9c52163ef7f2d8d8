package opsqueue

import (
	"context"

	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// Engine changes the queue. *ingest.Engine implements it.
type Engine interface {
	Returner
	Create(ctx context.Context, c *job.Create) (applied.Made, ingest.Receipt, error)
	ChangeBatch(ctx context.Context, c job.ChangeBatch) (applied.BatchChanged, ingest.Receipt, error)
	MoveAll(ctx context.Context, m job.Move) (applied.Swept, ingest.Receipt, error)
	ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)
	CompleteInOrder(ctx context.Context, commands []job.Complete) ([]applied.Ended, ingest.Receipt, error)
	Exchange(ctx context.Context, commands []job.Complete, c job.Claim) (*ingest.Exchange, error)
	CatchUp(ctx context.Context, minSeq uint64) error
	Now() int64
	Ready() error
}

// Queries reads the state. *store.Queries implements it.
type Queries interface {
	Batch(id job.ID) (document.Batch, error)
	Batches(f query.BatchFilter) (docs []document.Batch, next query.BatchPlace, err error)
	BatchCounts(client, typ string) ([job.NumBatchStatus]int64, error)
	BatchMetadata(id job.ID) ([]byte, error)
	BatchOfSnowflake(snowflake int64) (job.ID, error)
	Job(id job.ID) (job.Job, error)
	JobOf(batch job.ID, line int64) (job.ID, error)
	LineOf(id job.ID) (batch job.ID, line int64, err error)
	Queue(client, typ string) (document.Queue, error)
	Runner(name string) (document.Runner, error)
	Runners(afterName string, limit int) (list []document.Runner, more bool, err error)
}

// Client and Type name the queue of chunks.
const (
	Client = "opsqueue"
	Type   = "chunk"
)
