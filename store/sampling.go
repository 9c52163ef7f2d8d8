package store

import (
	"cmp"
	"slices"

	"github.com/daybookq/daybook/job"
)

// samples counts the pending jobs of the ready queues by priority, so that a job is drawn with the same chance as any other in a time that
// grows with the logarithm of the number of queues: in three orders, since a claim may allow all queues, those of some clients, or those of
// some types. It also serves fair claims, which look for the next client, and WaitingTypes.
type samples struct {
	all      sampleTree // by priority, client, type
	byClient sampleTree // by client, priority, type
	byType   sampleTree // by type, priority, client
	changed  []sample   // memory of set
}

// sample is the jobs of one priority that a queue has to hand out.
type sample struct {
	client, typ string
	priority    uint32
	queue       *queue
	jobs        int64
}

func newSamples() *samples {
	return &samples{
		all: sampleTree{compare: func(a, b *sample) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
		}},
		byClient: sampleTree{compare: func(a, b *sample) int {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(b.priority, a.priority), cmp.Compare(a.typ, b.typ))
		}},
		byType: sampleTree{compare: func(a, b *sample) int {
			return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(b.priority, a.priority), cmp.Compare(a.client, b.client))
		}},
	}
}

// of returns what a queue has to hand out, valid until the next call.
func (x *samples) of(q *queue) []sample {
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
func (x *samples) set(q *queue) {
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
		x.all.set(s)
		x.byClient.set(s)
		x.byType.set(s)
	}
	q.samples = append(q.samples[:0], now...)
}

// part is a stretch of a sampleTree from which may be drawn, or a single queue.
type part struct {
	tree     *sampleTree
	from, to sample // of a priority that draw fills in
	queue    *queue
}

// lowest is a priority below all.
const lowest = -1

// top returns the highest priority of which the part has jobs, or lowest.
func (p *part) top() int64 {
	if p.queue != nil {
		if len(p.queue.samples) == 0 {
			return lowest
		}
		return int64(p.queue.samples[0].priority)
	}
	first := p.from
	first.priority = ^uint32(0)
	if s := p.tree.first(&first); s != nil && (p.from.client == "" || s.client == p.from.client) && (p.from.typ == "" || s.typ == p.from.typ) {
		return int64(s.priority)
	}
	return lowest
}

// at makes the part one of the jobs of a priority, and counts them.
func (p *part) at(priority uint32) (jobs int64) {
	if p.queue != nil {
		for _, s := range p.queue.samples {
			if s.priority == priority {
				return s.jobs
			}
		}
		return 0
	}
	p.from.priority, p.to.priority = priority, priority
	return p.tree.before(&p.to) - p.tree.before(&p.from)
}

// lastName comes after all names of clients and types.
const lastName = "\xff"

// parts returns what a choice allows to draw from, in the order of the names.
func (x *samples) parts(c choice) (parts []part) {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		return []part{{tree: &x.all, to: sample{client: lastName}}}
	case len(c.types) == 0:
		for _, client := range sorted(c.clients) {
			parts = append(parts, part{tree: &x.byClient, from: sample{client: client}, to: sample{client: client, typ: lastName}})
		}
	case len(c.clients) == 0:
		for _, typ := range sorted(c.types) {
			parts = append(parts, part{tree: &x.byType, from: sample{typ: typ}, to: sample{typ: typ, client: lastName}})
		}
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *queue) int {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
		})
		for _, q := range slices.Compact(pairs) {
			parts = append(parts, part{queue: q})
		}
	}
	return parts
}

// draw returns the queue and lane of a job of the highest priority, and the job's place in the lane. random decides which.
func (x *samples) draw(c choice, random uint64) (q *queue, l *lane, place int64) {
	parts := x.parts(c)
	top := int64(lowest)
	for i := range parts {
		top = max(top, parts[i].top())
	}
	if top == lowest {
		return nil, nil, 0
	}
	priority, total := uint32(top), int64(0)
	jobs := make([]int64, len(parts))
	for i := range parts {
		jobs[i] = parts[i].at(priority)
		total += jobs[i]
	}
	place = int64(random % uint64(total))
	for i := range parts {
		if place >= jobs[i] {
			place -= jobs[i]
			continue
		}
		p := &parts[i]
		if q = p.queue; q == nil {
			q, place = p.tree.find(p.tree.before(&p.from) + place)
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
func (x *samples) nextClient(priority uint32, after, typ string) (client string, ok bool) {
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
func (x *samples) nextType(client, after string) (typ string, jobs int64) {
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

// sampleTree is an ordered set of samples whose running totals are found and changed in logarithmic time: a treap (Seidel, Aragon:
// Randomized Search Trees, 1996) that keeps the sum of each subtree. Its shape decides nothing.
type sampleTree struct {
	compare func(a, b *sample) int
	root    *sampleNode
	random  uint64
}

type sampleNode struct {
	sample
	sum         int64 // of the subtree
	left, right *sampleNode
	rank        uint64 // at least that of both children
}

func (n *sampleNode) total() int64 {
	if n == nil {
		return 0
	}
	return n.sum
}

func (n *sampleNode) add() *sampleNode {
	n.sum = n.jobs + n.left.total() + n.right.total()
	return n
}

// set adds a sample, or gives it another number of jobs.
func (t *sampleTree) set(s sample) {
	change := s.jobs
	if n := t.get(&s); n != nil {
		change -= n.jobs
		for at := t.root; ; {
			at.sum += change
			switch order := t.compare(&s, &at.sample); {
			case order < 0:
				at = at.left
			case order > 0:
				at = at.right
			default:
				at.jobs = s.jobs
				return
			}
		}
	}
	t.random = t.random*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
	t.root = t.insert(t.root, &sampleNode{sample: s, sum: s.jobs, rank: t.random ^ t.random>>33})
}

func (t *sampleTree) get(s *sample) *sampleNode {
	for n := t.root; n != nil; {
		switch order := t.compare(s, &n.sample); {
		case order < 0:
			n = n.left
		case order > 0:
			n = n.right
		default:
			return n
		}
	}
	return nil
}

func (t *sampleTree) insert(n, x *sampleNode) *sampleNode {
	switch {
	case n == nil:
		return x
	case x.rank > n.rank:
		x.left, x.right = t.split(n, &x.sample)
		return x.add()
	case t.compare(&x.sample, &n.sample) < 0:
		n.left = t.insert(n.left, x)
	default:
		n.right = t.insert(n.right, x)
	}
	return n.add()
}

// split parts a subtree into what comes before s and what comes after it.
func (t *sampleTree) split(n *sampleNode, s *sample) (before, after *sampleNode) {
	if n == nil {
		return nil, nil
	}
	if t.compare(&n.sample, s) < 0 {
		n.right, after = t.split(n.right, s)
		return n.add(), after
	}
	before, n.left = t.split(n.left, s)
	return before, n.add()
}

func (t *sampleTree) remove(s *sample) {
	if t.get(s) != nil {
		t.root = t.without(t.root, s)
	}
}

func (t *sampleTree) without(n *sampleNode, s *sample) *sampleNode {
	switch order := t.compare(s, &n.sample); {
	case order < 0:
		n.left = t.without(n.left, s)
	case order > 0:
		n.right = t.without(n.right, s)
	default:
		return join(n.left, n.right)
	}
	return n.add()
}

// join makes one tree of two, of which all of a comes before all of b.
func join(a, b *sampleNode) *sampleNode {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.rank > b.rank:
		a.right = join(a.right, b)
		return a.add()
	}
	b.left = join(a, b.left)
	return b.add()
}

// before returns how many jobs come before s.
func (t *sampleTree) before(s *sample) (jobs int64) {
	for n := t.root; n != nil; {
		if t.compare(&n.sample, s) < 0 {
			jobs += n.jobs + n.left.total()
			n = n.right
		} else {
			n = n.left
		}
	}
	return jobs
}

// first returns the first sample at or after s, or nil.
func (t *sampleTree) first(s *sample) (found *sample) {
	for n := t.root; n != nil; {
		if t.compare(&n.sample, s) < 0 {
			n = n.right
		} else {
			found, n = &n.sample, n.left
		}
	}
	return found
}

// find returns the queue at which the running total passes a number of jobs, and how far into it that is.
func (t *sampleTree) find(jobs int64) (q *queue, rest int64) {
	for n := t.root; ; {
		if left := n.left.total(); jobs < left {
			n = n.left
		} else if jobs -= left; jobs < n.jobs {
			return n.queue, jobs
		} else {
			jobs -= n.jobs
			n = n.right
		}
	}
}
