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

// parts are an engine and its queries, of which tests replace single ones.
type parts struct {
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

	jobReader
	jobLister
	queueReader
	runnerReader
	sessionReader
	sweepReader
}

func partsOf(e Engine, q Queries) parts {
	return parts{e, e, e, e, e, e, e, e, e, e, e, q, q, q, q, q, q}
}
