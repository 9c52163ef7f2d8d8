package store

import (
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
)

// takeDistinct takes the jobs whose values of some keys of meta have the fewest active jobs. After each job it looks
// for the best job again, unless the following jobs of the span are certain to be next.
//
// A complete index gives the exact order. Otherwise the claim looks at some spans, and takes the best jobs of these.
func (t *claiming) takeDistinct() {
	x := t.distinctIndex(t.cmd.Strategy)
	if x.stage == inLine {
		t.takeInLine(x)
	} else {
		t.takeOfSeen(x)
	}
}

// distinctWork bounds how much a claim by prefer_distinct looks at in memory, in steps of some nanoseconds. The claim
// ends after the job that exceeds it.
const distinctWork = 1_000_000

// takeInLine takes jobs in the order of a complete index.
func (t *claiming) takeInLine(x *distinctIndex) {
	scopes := x.scopes(t.choice)
	for draw, work := uint64(0), 0; work < distinctWork; draw++ {
		random := mix(t.seed, t.now.Seq, draw, math.MaxUint32)
		var pick distinctPick
		var cost int
		if x.wide == 0 {
			if pick, cost = x.next(scopes, t.meta.served, random); pick.q != nil && x.base != job.Random && t.batches.Get(pick.first.seq) == nil {
				t.prefetch(pick.leaf.ahead(aheadSpans))
			}
		} else {
			seen, looked := x.look(scopes, t.rules.distinctLooks)
			pick, cost = x.best(seen, &t.choice, t.meta.served, random)
			cost += looked
		}
		if work += cost; pick.q == nil {
			return
		}
		if _, more := t.takePick(x, &pick); !more {
			return
		}
	}
}

// takeOfSeen takes the best of some spans. When it has taken them, it looks at more.
func (t *claiming) takeOfSeen(x *distinctIndex) {
	var seen []*distinctSeen
	for draw, work := uint64(0), 0; work < distinctWork; draw++ {
		if len(seen) == 0 {
			if t.begun && (t.spent() || t.attributes.bytes > t.rules.claimBytes/2) { // the next look may read as many bytes again
				return
			}
			if seen = t.lookAhead(x); len(seen) == 0 {
				return
			}
			work += distinctWork / 4 // so that a claim looks at most four times
		}
		pick, cost := x.best(seen, &t.choice, t.meta.served, mix(t.seed, t.now.Seq, draw, math.MaxUint32))
		work += cost
		left, more := t.takePick(x, &pick)
		if !more {
			return
		}
		taken := pick.lines - left
		if s := pick.seen; left == 0 {
			if s.spans = s.spans[1:]; len(s.spans) == 0 {
				seen = slices.DeleteFunc(seen, func(other *distinctSeen) bool { return other == s })
			}
		} else if x.base == job.Newest {
			s.spans[0].last -= uint32(taken)
		}
		if pick.handedOut {
			for _, v := range pick.seen.values {
				if v != nil {
					v.active += taken
				}
			}
		}
	}
}

// takePick takes one job of the picked span, or several if they are certain to be next. It returns how many lines of
// the span are left, or 0 if the span has expired.
func (t *claiming) takePick(x *distinctIndex, pick *distinctPick) (left int64, more bool) {
	q := t.queues.byID[pick.q.id]
	p := t.whole(t.batch(pick.first.seq), t.spanEnding(pick.first.end()))
	pick.lines = p.lines()
	n, had := 1, t.left
	if pick.more {
		n = math.MaxInt
	}
	if x.base == job.Newest {
		more = t.takeLast(q, p, n)
	} else {
		more = t.takeFirst(q, p, n)
	}
	taken := int64(had - t.left)
	if pick.handedOut = taken > 0; !pick.handedOut {
		return 0, more
	}
	if x.base == job.Fair {
		t.meta.served = q.client
	}
	return pick.lines - taken, more
}

// lookAhead looks at the spans that the base strategy hands out next, in the first queues of the choice. It returns
// them by queue and values.
func (t *claiming) lookAhead(x *distinctIndex) (seen []*distinctSeen) {
	queues := firstReady(t.contest.scopes, max(1, t.rules.distinctLooks/4))
	known := map[distinctSeenName]*distinctSeen{}
	values := make([]map[valueName]*distinctValue, len(x.keys))
	for key := range values {
		values[key] = map[valueName]*distinctValue{}
	}
	var ends []position
	for _, q := range queues {
		ends = q.nextSpans(&t.o, x.base == job.Newest, max(1, t.rules.distinctLooks/len(queues)), ends)
	}
	slices.SortFunc(ends, comparePositions)
	t.prefetch(ends)
	for _, end := range ends {
		b, sp := t.batch(end.seq), t.spanEnding(end)
		g := t.group(b, sp.last)
		q := t.queues.byID[g.queueID]
		name := distinctSeenName{id: q.id}
		for key, k := range x.keys {
			text, ok := g.Meta.Get(k)
			if !ok {
				continue
			}
			of := valueName{q.client, text}
			v := values[key][of]
			if v == nil {
				v = &distinctValue{valueName: of, active: t.activeOf(x)(key, of)}
				values[key][of] = v
			}
			name.values[key] = v
		}
		s := known[name]
		if s == nil {
			s = &distinctSeen{distinctSeenName: name, q: &distinctQueue{queueName: q.queueName, id: q.id}}
			known[name], seen = s, append(seen, s)
		}
		s.spans = append(s.spans, waitingOf(&sp, b, g))
	}
	for _, s := range seen {
		slices.SortFunc(s.spans, func(a, b waiting) int { return x.compareSpans(&a, &b) })
	}
	return seen
}
