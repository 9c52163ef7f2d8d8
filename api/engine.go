package api

import (
	"github.com/daybookq/daybook/api/internal/files"
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
	handlerOperator
	files.FilesetOperator
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
	files.FilesetReader
	sweepReader
}

// backend is an engine together with the queries of its state.
type backend interface {
	Engine
	Queries
}
