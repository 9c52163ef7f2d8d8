package memory

import (
	"fmt"
	"slices"
	"sync"

	"github.com/daybookq/daybook/store/document"
	"github.com/daybookq/daybook/store/internal/row"
)

// Fill adds the queues at a start. It sorts them once for each order, and builds the trees in a fraction of the time
// that adding the queues one by one takes.
func (qs *queues) Fill(all []*Queue) {
	qs.ByID, qs.ByName = make(map[uint32]*Queue, len(all)), make(map[row.QueueName]*Queue, len(all))
	var parts sync.WaitGroup
	for _, q := range all {
		if !q.Paused {
			q.Head, q.Tail = q.first(), q.last()
		}
	}
	for _, tree := range []*queueTree{&qs.ByClient, &qs.ByType} {
		parts.Go(func() {
			sorted := slices.Clone(all)
			slices.SortFunc(sorted, func(a, b *Queue) int { return tree.compare(&a.QueueName, &b.QueueName) })
			tree.Fill(sorted)
		})
	}
	for _, q := range all {
		qs.ByID[q.Id] = q
		qs.ByName[q.QueueName] = q
		qs.join(q)
		qs.Bytes += q.Bytes()
		if q.IdleAt != 0 {
			qs.Idle.Set(q)
		}
	}
	parts.Wait()
}

// QueuesError: the queues of a store take more memory than Options.QueueMemory allows.
type QueuesError struct {
	Use     document.QueueUse
	Allowed int64
}

func (e *QueuesError) Error() string {
	return fmt.Sprintf("the %d queues of the store take about %d MiB of memory, and this process may use %d MiB for them; give it %.1f times as much memory (the limit of its container, or GOMEMLIMIT), and delete queues that have no jobs",
		e.Use.Queues, e.Use.Bytes>>20, e.Allowed>>20, float64(e.Use.Bytes)/float64(e.Allowed)+0.05)
}
