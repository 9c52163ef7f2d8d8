package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
)

// samples counts the pending jobs of the ready queues by priority, so that a job is drawn with the same chance as any
// other in a time that grows with the logarithm of the number of queues: in three orders, since a claim may allow all
// queues, those of some clients, or those of some types. It also serves fair claims, which look for the next client,
// and WaitingTypes.
type samplingTrees struct {
	all      weightedTree[sample] // by priority, client, type
	byClient weightedTree[sample] // by client, priority, type
	byType   weightedTree[sample] // by type, priority, client
	changed  []sample             // memory of set
}

func newSamplingTrees() *samplingTrees {
	return &samplingTrees{
		all: newWeightedTree(func(a, b *sample) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
		}),
		byClient: newWeightedTree(func(a, b *sample) int {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(b.priority, a.priority), cmp.Compare(a.typ, b.typ))
		}),
		byType: newWeightedTree(func(a, b *sample) int {
			return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(b.priority, a.priority), cmp.Compare(a.client, b.client))
		}),
	}
}

// of returns what a queue has to hand out, valid until the next call.
func (x *samplingTrees) of(q *queue) []sample {
	now := x.changed[:0]
	if q.rank != "" {
		for _, l := range q.lanes { // by priority
			if l.pending == 0 {
				continue
			}
			if n := len(now); n > 0 && now[n-1].priority == l.priority {
				now[n-1].jobs += l.pending
			} else {
				now = append(now, sample{q.client, q.typ, l.priority, q, l.pending})
			}
		}
	}
	x.changed = now
	return now
}

// set counts what q has now.
func (x *samplingTrees) set(q *queue) {
	now := x.of(q)
	if slices.Equal(now, q.samples) {
		return
	}
	for _, old := range q.samples {
		if !slices.ContainsFunc(now, func(s sample) bool { return s.priority == old.priority }) {
			x.all.remove(&old)
			x.byClient.remove(&old)
			x.byType.remove(&old)
		}
	}
	for _, s := range now {
		x.all.set(s, s.jobs)
		x.byClient.set(s, s.jobs)
		x.byType.set(s, s.jobs)
	}
	q.samples = append(q.samples[:0], now...)
}

// drawRange is a range of a tree of samples from which a draw may take, or a single queue.
type drawRange struct {
	tree     *weightedTree[sample]
	from, to sample // at fills the priority in
	queue    *queue
}

// lowest is a priority below all.
const lowest = -1

// top returns the highest priority of which the range has jobs, or lowest.
func (r *drawRange) top() int64 {
	if r.queue != nil {
		if len(r.queue.samples) == 0 {
			return lowest
		}
		return int64(r.queue.samples[0].priority)
	}
	first := r.from
	first.priority = ^uint32(0)
	if s := r.tree.first(&first); s != nil && (r.from.client == "" || s.client == r.from.client) && (r.from.typ == "" || s.typ == r.from.typ) {
		return int64(s.priority)
	}
	return lowest
}

// at limits the range to the jobs of a priority, and counts them.
func (r *drawRange) at(priority uint32) (jobs int64) {
	if r.queue != nil {
		for _, s := range r.queue.samples {
			if s.priority == priority {
				return s.jobs
			}
		}
		return 0
	}
	r.from.priority, r.to.priority = priority, priority
	return r.tree.before(&r.to) - r.tree.before(&r.from)
}

// lastName comes after all names of clients and types.
const lastName = "\xff"

// ranges returns what a choice allows to draw from, in the order of the names.
func (x *samplingTrees) ranges(c choice) (ranges []drawRange) {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		return []drawRange{{tree: &x.all, to: sample{client: lastName}}}
	case len(c.types) == 0:
		for _, client := range sorted(c.clients) {
			ranges = append(ranges, drawRange{tree: &x.byClient, from: sample{client: client}, to: sample{client: client, typ: lastName}})
		}
	case len(c.clients) == 0:
		for _, typ := range sorted(c.types) {
			ranges = append(ranges, drawRange{tree: &x.byType, from: sample{typ: typ}, to: sample{typ: typ, client: lastName}})
		}
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *queue) int {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
		})
		for _, q := range slices.Compact(pairs) {
			ranges = append(ranges, drawRange{queue: q})
		}
	}
	return ranges
}

// draw returns the queue and lane of a job of the highest priority, and the job's place in the lane. random decides
// which.
func (x *samplingTrees) draw(c choice, random uint64) (q *queue, l *lane, place int64) {
	ranges := x.ranges(c)
	top := int64(lowest)
	for i := range ranges {
		top = max(top, ranges[i].top())
	}
	if top == lowest {
		return nil, nil, 0
	}
	priority, total := uint32(top), int64(0)
	jobs := make([]int64, len(ranges))
	for i := range ranges {
		jobs[i] = ranges[i].at(priority)
		total += jobs[i]
	}
	place = int64(random % uint64(total))
	for i := range ranges {
		if place >= jobs[i] {
			place -= jobs[i]
			continue
		}
		r := &ranges[i]
		if q = r.queue; q == nil {
			var s *sample
			s, place = r.tree.find(r.tree.before(&r.from) + place)
			q = s.queue
		}
		break
	}
	for _, class := range [...]job.Class{job.Returned, job.Fresh} {
		l = q.lane(laneID{priority, class})
		if place < l.pending {
			return q, l, place
		}
		place -= l.pending
	}
	panic("store: the samples count more jobs than their queue has")
}

// nextClient returns the first client after one that has jobs of a priority, of one type or, with "", of any.
func (x *samplingTrees) nextClient(priority uint32, after, typ string) (client string, ok bool) {
	tree, from := &x.all, sample{priority: priority, client: after, typ: lastName}
	if typ != "" {
		tree, from = &x.byType, sample{priority: priority, client: after + "\x00", typ: typ}
	}
	if s := tree.first(&from); s != nil && s.priority == priority && (typ == "" || s.typ == typ) {
		return s.client, true
	}
	return "", false
}

// nextType returns the first type after one of which jobs wait, and how many, of one client or, with "", of all.
func (x *samplingTrees) nextType(client, after string) (typ string, jobs int64) {
	if client == "" {
		s := x.byType.first(&sample{typ: after + "\x00", priority: ^uint32(0)})
		if s == nil {
			return "", 0
		}
		return s.typ, x.byType.before(&sample{typ: s.typ + "\x00", priority: ^uint32(0)}) - x.byType.before(&sample{typ: s.typ, priority: ^uint32(0)})
	}
	var next *queue
	for from := (sample{client: client, priority: ^uint32(0), typ: after + "\x00"}); ; from.priority-- {
		s := x.byClient.first(&from)
		if s == nil || s.client != client {
			break
		}
		from.priority = s.priority // of which the first type may be one before
		if s = x.byClient.first(&from); s != nil && s.client == client && s.priority == from.priority && (next == nil || s.typ < next.typ) {
			next = s.queue
		}
		if from.priority == 0 {
			break
		}
	}
	if next == nil {
		return "", 0
	}
	for _, s := range next.samples {
		jobs += s.jobs
	}
	return next.typ, jobs
}
