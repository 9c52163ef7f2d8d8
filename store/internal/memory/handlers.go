package memory

import (
	"github.com/daybookq/daybook/store/internal/row"
)

// Handlers are all handlers, without their documents.
type Handlers struct {
	ByName  map[row.QueueName]*row.Handler
	Bytes   int64 // of all documents
	Changed bool  // since the last commit
}
