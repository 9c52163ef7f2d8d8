package machine

import (
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// takeDistinct takes the jobs whose values of some keys of meta have the fewest active jobs. After each job it looks
// for the best job again, unless the following jobs of the span are certain to be next.
//
// A complete index gives the exact order. Otherwise the claim looks at some spans, and takes the best jobs of these.
func (t *claiming) takeDistinct() {
	x := t.distinctIndex(t.cmd.Strategy)
	if x.Stage == row.InLine {
		t.takeInLine(x)
	} else {
		t.takeOfSeen(x)
	}
}

// distinctWork bounds how much a claim by prefer_distinct looks at in memory, in steps of some nanoseconds. The claim
// ends after the job that exceeds it.
const distinctWork = 1_000_000

// takeInLine takes jobs in the order of a complete index.
func (t *claiming) takeInLine(x *memory.DistinctIndex) {
	scopes := x.Scopes(t.choice)
	for draw, work := uint64(0), 0; work < distinctWork; draw++ {
		random := job.RandomOf(t.Seed, t.Now.Seq, draw, math.MaxUint32)
		var pick memory.DistinctPick
		var cost int
		if x.Wide == 0 {
			if pick, cost = x.Next(scopes, t.Meta.Served, random); pick.Q != nil && x.Base != job.Random && t.Batches.Get(pick.First.Seq) == nil {
				t.prefetch(pick.Leaf.Ahead(AheadSpans))
			}
		} else {
			seen, looked := x.Look(scopes, t.Rules.DistinctLooks)
			pick, cost = x.Best(seen, &t.choice, t.Meta.Served, random)
			cost += looked
		}
		if work += cost; pick.Q == nil {
			return
		}
		if _, more := t.takePick(x, &pick); !more {
			return
		}
	}
}

// takeOfSeen takes the best of some spans. When it has taken them, it looks at more.
func (t *claiming) takeOfSeen(x *memory.DistinctIndex) {
	var seen []*memory.DistinctSeen
	for draw, work := uint64(0), 0; work < distinctWork; draw++ {
		if len(seen) == 0 {
			if t.begun && (t.spent() || t.attributes.bytes > t.Rules.ClaimBytes/2) { // the next look may read as many bytes again
				return
			}
			if seen = t.lookAhead(x); len(seen) == 0 {
				return
			}
			work += distinctWork / 4 // so that a claim looks at most four times
		}
		pick, cost := x.Best(seen, &t.choice, t.Meta.Served, job.RandomOf(t.Seed, t.Now.Seq, draw, math.MaxUint32))
		work += cost
		left, more := t.takePick(x, &pick)
		if !more {
			return
		}
		taken := pick.Lines - left
		if s := pick.Seen; left == 0 {
			if s.Spans = s.Spans[1:]; len(s.Spans) == 0 {
				seen = slices.DeleteFunc(seen, func(other *memory.DistinctSeen) bool { return other == s })
			}
		} else if x.Base == job.Newest {
			s.Spans[0].Last -= uint32(taken)
		}
		if pick.HandedOut {
			for _, v := range pick.Seen.Values {
				if v != nil {
					v.Active += taken
				}
			}
		}
	}
}

// takePick takes one job of the picked span, or several if they are certain to be next. It returns how many lines of
// the span are left, or 0 if the span has expired.
func (t *claiming) takePick(x *memory.DistinctIndex, pick *memory.DistinctPick) (left int64, more bool) {
	q := t.AllQueues.ByID[pick.Q.Id]
	p := t.whole(t.Batch(pick.First.Seq), t.spanEnding(pick.First.End()))
	pick.Lines = p.Lines()
	n, had := 1, t.left
	if pick.More {
		n = math.MaxInt
	}
	if x.Base == job.Newest {
		more = t.takeLast(q, p, n)
	} else {
		more = t.takeFirst(q, p, n)
	}
	taken := int64(had - t.left)
	if pick.HandedOut = taken > 0; !pick.HandedOut {
		return 0, more
	}
	if x.Base == job.Fair {
		t.Meta.Served = q.Client
	}
	return pick.Lines - taken, more
}

// lookAhead looks at the spans that the base strategy hands out next, in the first queues of the choice. It returns
// them by queue and values.
func (t *claiming) lookAhead(x *memory.DistinctIndex) (seen []*memory.DistinctSeen) {
	queues := memory.FirstReady(t.contest.Scopes, max(1, t.Rules.DistinctLooks/4))
	known := map[memory.DistinctSeenName]*memory.DistinctSeen{}
	values := make([]map[row.ValueName]*memory.DistinctValue, len(x.Keys))
	for key := range values {
		values[key] = map[row.ValueName]*memory.DistinctValue{}
	}
	var ends []row.Position
	for _, q := range queues {
		ends = q.NextSpans(&t.O, x.Base == job.Newest, max(1, t.Rules.DistinctLooks/len(queues)), ends)
	}
	slices.SortFunc(ends, row.ComparePositions)
	t.prefetch(ends)
	for _, end := range ends {
		b, sp := t.Batch(end.Seq), t.spanEnding(end)
		g := t.Group(b, sp.Last)
		q := t.AllQueues.ByID[g.QueueID]
		name := memory.DistinctSeenName{Id: q.Id}
		for key, k := range x.Keys {
			text, ok := g.Meta.Get(k)
			if !ok {
				continue
			}
			of := row.ValueName{q.Client, text}
			v := values[key][of]
			if v == nil {
				v = &memory.DistinctValue{ValueName: of, Active: t.activeOf(x)(key, of)}
				values[key][of] = v
			}
			name.Values[key] = v
		}
		s := known[name]
		if s == nil {
			s = &memory.DistinctSeen{DistinctSeenName: name, Q: &memory.DistinctQueue{QueueName: q.QueueName, Id: q.Id}}
			known[name], seen = s, append(seen, s)
		}
		s.Spans = append(s.Spans, memory.WaitingOf(&sp, b, g))
	}
	for _, s := range seen {
		slices.SortFunc(s.Spans, func(a, b row.Waiting) int { return x.CompareSpans(&a, &b) })
	}
	return seen
}
