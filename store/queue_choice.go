package store

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// choice is the queues that a claim allows: the queues of some clients, of some types, or of both (no names: all
// queues).
type choice struct {
	clients, types []string
	pairs          []*queue // the existing queues, if both are named
}

func (qs *queues) choice(clients, types []string) choice {
	c := choice{clients: clients, types: types}
	if len(clients) > 0 && len(types) > 0 {
		for _, client := range clients {
			for _, typ := range types {
				if q := qs.byName[queueName{client, typ}]; q != nil {
					c.pairs = append(c.pairs, q)
				}
			}
		}
	}
	return c
}

// scope is a part of the queues that a claim allows: the queues of a client or of a type, a single queue, or all
// queues.
type scope struct {
	tree  *queueTree // nil: one queue
	first string     // the common prefix of the names; "": all queues
	queue *queue
}

func (s *scope) standing() standing {
	switch {
	case s.tree == nil:
		return s.queue.ready()
	case s.first == "":
		return s.tree.all()
	}
	return s.tree.of(s.first)
}

// draw is queueTree.draw of the scope.
func (s *scope) draw(priority, place int64) (q *queue, rest int64) {
	switch {
	case s.tree == nil:
		return s.queue, place
	case s.first == "":
		return s.tree.drawBelow(s.tree.root, priority, place)
	}
	return s.tree.draw(s.first, priority, place)
}

// ready calls visit with the queues of the scope that have jobs to hand out, until it returns false: first with the
// queue whose head is next in line, then with the remaining queues by name. It reports whether visit returned true each
// time.
func (s *scope) ready(visit func(q *queue) bool) (more bool) {
	if s.tree == nil {
		return s.queue.head == nil || visit(s.queue)
	}
	best := s.standing().head
	if best == nil {
		return true
	}
	if !visit(best) {
		return false
	}
	after := s.tree.name(s.first, "")
	for {
		q := s.tree.after(&after, lowest+1)
		if q == nil || s.first != "" && s.tree.first(&q.queueName) != s.first {
			return true
		}
		if q != best && !visit(q) {
			return false
		}
		after = q.queueName
	}
}

// sortedNames returns the names in order, without duplicates.
func sortedNames(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// scopes returns the parts of a choice, in the order of their names.
func (qs *queues) scopes(c choice) (scopes []scope) {
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		return []scope{{tree: &qs.byClient}}
	case len(c.types) == 0:
		for _, client := range sortedNames(c.clients) {
			scopes = append(scopes, scope{tree: &qs.byClient, first: client})
		}
	case len(c.clients) == 0:
		for _, typ := range sortedNames(c.types) {
			scopes = append(scopes, scope{tree: &qs.byType, first: typ})
		}
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *queue) int {
			return cmp.Or(strings.Compare(a.client, b.client), strings.Compare(a.typ, b.typ))
		})
		for _, q := range slices.Compact(pairs) {
			scopes = append(scopes, scope{queue: q})
		}
	}
	return scopes
}

// ready calls visit with the queues of some clients and types that have jobs to hand out, until it returns false. An
// empty list means all.
func (qs *queues) ready(clients, types []string, visit func(q *queue) bool) {
	if len(clients) == 0 || len(types) == 0 {
		for _, s := range qs.scopes(choice{clients: clients, types: types}) {
			if !s.ready(visit) {
				return
			}
		}
		return
	}
	for _, client := range clients {
		for _, typ := range types {
			if q := qs.byName[queueName{client, typ}]; q != nil && q.head != nil && !visit(q) {
				return
			}
		}
	}
}

// firstReady returns up to n queues of some scopes that have a job of the highest priority, in the order of their heads.
func firstReady(scopes []scope, n int) (found []*queue) {
	var parts headHeap
	add := func(t *queueTree, q *queue, whole bool, s standing) {
		if s.head != nil {
			heap.Push(&parts, headPart{t, q, s.head, whole})
		}
	}
	for i := range scopes {
		switch s := &scopes[i]; {
		case s.tree == nil:
			add(nil, s.queue, false, s.queue.ready())
		case s.first == "":
			add(s.tree, s.tree.root, true, s.tree.all())
		default:
			s.tree.pieces(s.first, func(q *queue, whole bool, piece standing) bool { add(s.tree, q, whole, piece); return true })
		}
	}
	for len(parts) > 0 && len(found) < n {
		p := heap.Pop(&parts).(headPart)
		if len(found) > 0 && p.head.head.priority < found[0].head.priority {
			break
		}
		if !p.whole {
			found = append(found, p.q)
			continue
		}
		b := p.tree.branch(p.q)
		add(p.tree, p.q, false, p.q.ready())
		for _, below := range []*queue{b.left, b.right} {
			if below != nil {
				add(p.tree, below, true, p.tree.branch(below).standing)
			}
		}
	}
	return found
}

// headPart is a queue, or if whole all queues of a subtree, and the queue among them whose head is next in line.
type headPart struct {
	tree    *queueTree
	q, head *queue
	whole   bool
}

// headHeap orders parts by their heads: the part whose head is next in line comes first.
type headHeap []headPart

func (h headHeap) Len() int           { return len(h) }
func (h headHeap) Less(i, j int) bool { return compareHeads(h[i].head, h[j].head) < 0 }
func (h headHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *headHeap) Push(x any)        { *h = append(*h, x.(headPart)) }

func (h *headHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// contest finds the queue that a claim takes from next, among the queues of its scopes. It computes the standings once.
// After a queue has changed, it recomputes only the standings that include the queue.
type contest struct {
	scopes    []scope
	standings []standing // a tree: nodes 2n and 2n+1 add up to node n, the root is 1, and the second half are the scopes
}

func newContest(scopes []scope) *contest {
	size := 1
	for size < len(scopes) {
		size *= 2
	}
	c := &contest{scopes, make([]standing, 2*size)}
	for i := range scopes {
		c.standings[size+i] = scopes[i].standing()
	}
	for n := size - 1; n > 0; n-- {
		c.count(n)
	}
	return c
}

func (c *contest) count(n int) {
	c.standings[n] = c.standings[2*n]
	c.standings[n].add(&c.standings[2*n+1])
}

// all returns the standing of all queues of the contest.
func (c *contest) all() *standing { return &c.standings[1] }

// changed records that a queue has changed.
func (c *contest) changed(q *queue) {
	at, found := slices.BinarySearchFunc(c.scopes, q, func(s scope, q *queue) int {
		switch {
		case s.tree == nil:
			return cmp.Or(strings.Compare(s.queue.client, q.client), strings.Compare(s.queue.typ, q.typ))
		case s.first == "":
			return 0
		}
		return strings.Compare(s.first, s.tree.first(&q.queueName))
	})
	if !found {
		return
	}
	n := len(c.standings)/2 + at
	c.standings[n] = c.scopes[at].standing()
	for n /= 2; n > 0; n /= 2 {
		c.count(n)
	}
}

// draw returns the queue of one job of the highest priority. place is how many of these jobs precede the job, and rest
// how many of them are in the same queue.
func (c *contest) draw(place int64) (q *queue, rest int64) {
	n, priority := 1, c.all().top()
	for n < len(c.standings)/2 {
		n *= 2
		if jobs := c.standings[n].at(priority); place >= jobs {
			place -= jobs
			n++
		}
	}
	return c.scopes[n-len(c.standings)/2].draw(priority, place)
}
