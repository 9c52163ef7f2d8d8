package store

import (
	"fmt"
	"slices"
	"sync"
)

// fill adds the queues at a start. It sorts them once for each order, and builds the trees in a fraction of the time
// that adding the queues one by one takes.
func (qs *queues) fill(all []*queue) {
	qs.byID, qs.byName = make(map[uint32]*queue, len(all)), make(map[queueName]*queue, len(all))
	var parts sync.WaitGroup
	for _, q := range all {
		if !q.paused {
			q.head, q.tail = q.first(), q.last()
		}
	}
	for _, tree := range []*queueTree{&qs.byClient, &qs.byType} {
		parts.Go(func() {
			sorted := slices.Clone(all)
			slices.SortFunc(sorted, func(a, b *queue) int { return tree.compare(&a.queueName, &b.queueName) })
			tree.fill(sorted)
		})
	}
	for _, q := range all {
		qs.byID[q.id] = q
		qs.byName[q.queueName] = q
		qs.bytes += q.bytes()
		if q.idleAt != 0 {
			qs.idle.Set(q)
		}
	}
	parts.Wait()
}

// QueuesError: the queues of a store take more memory than Options.QueueMemory allows.
type QueuesError struct {
	Use     QueueUse
	Allowed int64
}

func (e *QueuesError) Error() string {
	return fmt.Sprintf("the %d queues of the store take about %d MiB of memory, and this process may use %d MiB for them; give it %.1f times as much memory (the limit of its container, or GOMEMLIMIT), and delete queues that have no jobs",
		e.Use.Queues, e.Use.Bytes>>20, e.Allowed>>20, float64(e.Use.Bytes)/float64(e.Allowed)+0.05)
}
