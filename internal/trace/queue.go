package trace

import (
	"context"
	"sync"

	"github.com/daybookq/daybook/job"
)

// maxQueuedRuns bounds the runs that wait to become spans. With error texts of the maximum length, they take 20 MB.
const maxQueuedRuns = 16_384

// queue has the runs that wait to become spans.
type queue struct {
	most  int
	ready chan struct{} // capacity 1: something was put

	mu     sync.Mutex // guards the fields below
	list   []job.RunEnd
	runs   int // in list, or taken and not done
	closed bool
}

func newQueue(most int) *queue { return &queue{most: most, ready: make(chan struct{}, 1)} }

// put adds the runs that refused does not refuse, as far as there is room, and returns how many it dropped. It does not
// block.
func (q *queue) put(ends []job.RunEnd, refused func(*job.RunEnd) bool) (dropped int) {
	added := false
	q.mu.Lock()
	for i := range ends {
		e := &ends[i]
		if refused(e) {
			continue
		}
		room := q.most - q.runs
		if q.closed {
			room = 0
		}
		n := min(e.Jobs, room)
		dropped += e.Jobs - n
		if n == 0 {
			continue
		}
		q.list = append(q.list, *e)
		q.list[len(q.list)-1].Jobs = n
		q.runs += n
		added = true
	}
	q.mu.Unlock()
	if added {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return dropped
}

// take waits until runs were put or ctx is done, and returns the runs since the last call, if any. If ctx is done, it
// closes the queue.
func (q *queue) take(ctx context.Context) []job.RunEnd {
	select {
	case <-q.ready:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = ctx.Err() != nil
	list := q.list
	q.list = nil
	return list
}

// done makes room for n runs: as many taken runs have become spans, or never will.
func (q *queue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.runs -= n
}
