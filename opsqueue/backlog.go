package opsqueue

import (
	"sync"
	"time"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/query"
)

// backlog returns the number of chunks that have not ended.
func (s *Server) backlog() int64 {
	q, err := s.state.Queue(Client, Type)
	if err != nil { // the queue does not exist yet
		return 0
	}
	return q.Counts[job.Deferred] + q.Counts[job.Pending] + q.Counts[job.Active]
}

// operations caches the sum of chunk_size over the chunks that have not ended. The server has to read all submissions in
// progress for it, so it keeps the sum for some seconds.
type operations struct {
	mu    sync.Mutex
	n     float64
	until time.Time
}

const operationsAge = 5 * time.Second // as in the original

func (o *operations) get(s *Server) float64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return o.n
	}
	n := 0.0
	filter := query.BatchFilter{Status: job.BatchInProgress, Client: Client, Type: Type}
	err := s.each(s.running, filter, func(doc *document.Batch) bool {
		n += float64(max(doc.Submission.ChunkSize, defaultChunkSize)) * float64(doc.Jobs-doc.Ended)
		return true
	})
	if err == nil {
		o.n = n
	}
	o.until = time.Now().Add(operationsAge)
	return o.n
}
