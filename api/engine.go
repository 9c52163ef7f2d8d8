package api

// Engine is what changes the queue, and what reports on it; *ingest.Engine is it. Each part is declared in the file of
// the handlers that use it.
type Engine interface {
	creator
	claimer
	tickler
	completer
	operator
	queueOperator
	sessionOperator
	switcher
	clock
	monitor
	follower
}

// Queries read the state; *store.Queries has them. A handler has the engine catch up before it calls one.
type Queries interface {
	jobReader
	jobLister
	queueReader
	runnerReader
	sessionReader
	sweepReader
}

// backend is an engine together with the queries of its state.
type backend interface {
	Engine
	Queries
}
