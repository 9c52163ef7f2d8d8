package store

// handlers are all handlers, without their documents.
type handlers struct {
	byName  map[queueName]*handler
	bytes   int64 // of all documents
	changed bool  // since the last commit
}
