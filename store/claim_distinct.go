package store

import (
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
)

// takeDistinct takes the jobs whose values of some keys of meta have the fewest active jobs. It looks for the best job
// again after each that it hands out, unless those that follow in its span are next in any case.
func (t *claiming) takeDistinct() {
	x := t.distinctIndex(t.cmd.Strategy)
	x.arrange(t.rules.distinctStep)
	for draw := uint64(0); ; draw++ {
		pick, ok := x.next(t.choice, t.meta.served, mix(t.seed, t.now.Seq, draw, math.MaxUint32))
		if !ok {
			return
		}
		if x.base != job.Random && t.batches.Get(pick.end.seq) == nil {
			ends := pick.leaf.ahead(aheadSpans)
			slices.SortFunc(ends, comparePositions)
			t.prefetch(ends)
		}
		n, had := 1, t.left
		if pick.more {
			n = math.MaxInt
		}
		p := t.whole(t.batch(pick.end.seq), t.spanEnding(pick.end))
		p.first += uint32(pick.before)
		var goOn bool
		if x.base == job.Newest {
			goOn = t.takeLast(pick.q, p, n)
		} else {
			goOn = t.takeFirst(pick.q, p, n)
		}
		if x.base == job.Fair && t.left < had {
			t.meta.served = pick.q.client
		}
		if !goOn {
			return
		}
	}
}
