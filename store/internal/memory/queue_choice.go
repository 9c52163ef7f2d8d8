package memory

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"github.com/daybookq/daybook/store/internal/row"
)

// Choice is the queues that a claim allows: the queues of some clients, of some types, or of both (no names: all
// queues).
type Choice struct {
	Clients, Types []string
	pairs          []*Queue // the existing queues, if both are named
}

func (qs *queues) Choice(clients, types []string) Choice {
	c := Choice{Clients: clients, Types: types}
	if len(clients) > 0 && len(types) > 0 {
		for _, client := range clients {
			for _, typ := range types {
				if q := qs.ByName[row.QueueName{client, typ}]; q != nil {
					c.pairs = append(c.pairs, q)
				}
			}
		}
	}
	return c
}

// Scope is a part of the queues that a claim allows: the queues of a client or of a type, a single queue, or all
// queues.
type Scope struct {
	Tree  *queueTree // nil: one queue
	First string     // the common prefix of the names; "": all queues
	queue *Queue
}

func (s *Scope) standing() standing {
	switch {
	case s.Tree == nil:
		return s.queue.Ready()
	case s.First == "":
		return s.Tree.All()
	}
	return s.Tree.Of(s.First)
}

// Draw is queueTree.draw of the scope.
func (s *Scope) Draw(priority, place int64) (q *Queue, rest int64) {
	switch {
	case s.Tree == nil:
		return s.queue, place
	case s.First == "":
		return s.Tree.drawBelow(s.Tree.root, priority, place)
	}
	return s.Tree.Draw(s.First, priority, place)
}

// Ready calls visit with the queues of the scope that have jobs to hand out, until it returns false: first with the
// queue whose head is next in line, then with the remaining queues by name. It reports whether visit returned true each
// time.
func (s *Scope) Ready(visit func(q *Queue) bool) (more bool) {
	if s.Tree == nil {
		return s.queue.Head == nil || visit(s.queue)
	}
	best := s.standing().Head
	if best == nil {
		return true
	}
	if !visit(best) {
		return false
	}
	after := s.Tree.name(s.First, "")
	for {
		q := s.Tree.After(&after, lowest+1)
		if q == nil || s.First != "" && s.Tree.first(&q.QueueName) != s.First {
			return true
		}
		if q != best && !visit(q) {
			return false
		}
		after = q.QueueName
	}
}

// SortedNames returns the names in order, without duplicates.
func SortedNames(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// Scopes returns the parts of a choice, in the order of their names.
func (qs *queues) Scopes(c Choice) (scopes []Scope) {
	switch {
	case len(c.Clients) == 0 && len(c.Types) == 0:
		return []Scope{{Tree: &qs.ByClient}}
	case len(c.Types) == 0:
		for _, client := range SortedNames(c.Clients) {
			scopes = append(scopes, Scope{Tree: &qs.ByClient, First: client})
		}
	case len(c.Clients) == 0:
		for _, typ := range SortedNames(c.Types) {
			scopes = append(scopes, Scope{Tree: &qs.ByType, First: typ})
		}
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *Queue) int {
			return cmp.Or(strings.Compare(a.Client, b.Client), strings.Compare(a.Typ, b.Typ))
		})
		for _, q := range slices.Compact(pairs) {
			scopes = append(scopes, Scope{queue: q})
		}
	}
	return scopes
}

// Ready calls visit with the queues of some clients and types that have jobs to hand out, until it returns false. An
// empty list means all.
func (qs *queues) Ready(clients, types []string, visit func(q *Queue) bool) {
	if len(clients) == 0 || len(types) == 0 {
		for _, s := range qs.Scopes(Choice{Clients: clients, Types: types}) {
			if !s.Ready(visit) {
				return
			}
		}
		return
	}
	for _, client := range clients {
		for _, typ := range types {
			if q := qs.ByName[row.QueueName{client, typ}]; q != nil && q.Head != nil && !visit(q) {
				return
			}
		}
	}
}

// FirstReady returns up to n queues of some scopes that have a job of the highest priority, in the order of their heads.
func FirstReady(scopes []Scope, n int) (found []*Queue) {
	var parts headHeap
	add := func(t *queueTree, q *Queue, whole bool, s standing) {
		if s.Head != nil {
			heap.Push(&parts, headPart{t, q, s.Head, whole})
		}
	}
	for i := range scopes {
		switch s := &scopes[i]; {
		case s.Tree == nil:
			add(nil, s.queue, false, s.queue.Ready())
		case s.First == "":
			add(s.Tree, s.Tree.root, true, s.Tree.All())
		default:
			s.Tree.pieces(s.First, func(q *Queue, whole bool, piece standing) bool { add(s.Tree, q, whole, piece); return true })
		}
	}
	for len(parts) > 0 && len(found) < n {
		p := heap.Pop(&parts).(headPart)
		if len(found) > 0 && p.head.Head.Priority < found[0].Head.Priority {
			break
		}
		if !p.whole {
			found = append(found, p.q)
			continue
		}
		b := p.tree.branch(p.q)
		add(p.tree, p.q, false, p.q.Ready())
		for _, below := range []*Queue{b.left, b.right} {
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
	q, head *Queue
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

// Contest finds the queue that a claim takes from next, among the queues of its scopes. It computes the standings once.
// After a queue has changed, it recomputes only the standings that include the queue.
type Contest struct {
	Scopes    []Scope
	standings []standing // a tree: nodes 2n and 2n+1 add up to node n, the root is 1, and the second half are the scopes
}

func NewContest(scopes []Scope) *Contest {
	size := 1
	for size < len(scopes) {
		size *= 2
	}
	c := &Contest{scopes, make([]standing, 2*size)}
	for i := range scopes {
		c.standings[size+i] = scopes[i].standing()
	}
	for n := size - 1; n > 0; n-- {
		c.Count(n)
	}
	return c
}

func (c *Contest) Count(n int) {
	c.standings[n] = c.standings[2*n]
	c.standings[n].Add(&c.standings[2*n+1])
}

// All returns the standing of all queues of the contest.
func (c *Contest) All() *standing { return &c.standings[1] }

// Changed records that a queue has changed.
func (c *Contest) Changed(q *Queue) {
	at, found := slices.BinarySearchFunc(c.Scopes, q, func(s Scope, q *Queue) int {
		switch {
		case s.Tree == nil:
			return cmp.Or(strings.Compare(s.queue.Client, q.Client), strings.Compare(s.queue.Typ, q.Typ))
		case s.First == "":
			return 0
		}
		return strings.Compare(s.First, s.Tree.first(&q.QueueName))
	})
	if !found {
		return
	}
	n := len(c.standings)/2 + at
	c.standings[n] = c.Scopes[at].standing()
	for n /= 2; n > 0; n /= 2 {
		c.Count(n)
	}
}

// Draw returns the queue of one job of the highest priority. place is how many of these jobs precede the job, and rest
// how many of them are in the same queue.
func (c *Contest) Draw(place int64) (q *Queue, rest int64) {
	n, priority := 1, c.All().Top()
	for n < len(c.standings)/2 {
		n *= 2
		if jobs := c.standings[n].at(priority); place >= jobs {
			place -= jobs
			n++
		}
	}
	return c.Scopes[n-len(c.standings)/2].Draw(priority, place)
}
