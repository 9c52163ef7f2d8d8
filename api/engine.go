package api

import (
	"context"

	"github.com/daybookq/daybook/api/internal/named"
	"github.com/daybookq/daybook/ingest"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/job/runs"
	"github.com/daybookq/daybook/store/applied"
)

// Engine changes the queue and reports on it. *ingest.Engine implements it. Each part is declared in the file of the
// handlers that use it.
type Engine interface {
	creator
	claimer
	pusher
	tickler
	completer
	exchanger
	operator
	batchOperator
	queueOperator
	sessionOperator
	named.Operator
	runnerRegistry
	switcher
	clock
	monitor
	follower
	snapshotter
}

// Queries reads the state. *query.Queries implements it. A handler calls CatchUp of the engine before it reads.
type Queries interface {
	jobReader
	jobLister
	batchReader
	queueReader
	runnerReader
	sessionReader
	handlerReader
	named.Reader
	sweepReader
}

// backend is an engine together with the queries of its state.
type backend interface {
	Engine
	Queries
}

type pusher interface {
	Silence(runner string) uint64
	WhenLost(end func(runner string) (returned <-chan struct{}))
	ClaimUntil(ctx context.Context, c job.Claim, stop <-chan struct{}, admit func(payloadBytes int64) error) (applied.Claimed, []runs.Run, ingest.Receipt, error)
}
