package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// distinctPick is the job that a claim by prefer_distinct takes next.
type distinctPick struct {
	q     *distinctQueue // nil: no job was found
	first waiting        // its span
	// more: the claim may go on with the span's next jobs in the base order, because handing them out changes no rank,
	// or because no other jobs wait.
	more      bool
	leaf      *distinctNode // where the job was found, if the index has an order
	seen      *distinctSeen // where the job was found, if the index lacks an order
	lines     int64         // of the span
	handedOut bool
}

// distinctScope is a part of the roots of an index that a claim looks at: all roots, the roots of a client or type, or
// one root.
type distinctScope struct {
	tree        *weightedTree[*distinctNode] // nil: one root
	client, typ string
	root        *distinctNode
}

// scopes returns the parts that a choice allows, in the order of the names.
func (x *distinctIndex) scopes(c choice) (scopes []distinctScope) {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	switch {
	case len(c.clients) == 0 && len(c.types) == 0:
		return []distinctScope{{tree: &x.all}}
	case len(c.types) == 0:
		for _, client := range sorted(c.clients) {
			scopes = append(scopes, distinctScope{tree: &x.byClient, client: client})
		}
	case len(c.clients) == 0:
		for _, typ := range sorted(c.types) {
			scopes = append(scopes, distinctScope{tree: &x.byType, typ: typ})
		}
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *queue) int {
			return cmp.Or(strings.Compare(a.client, b.client), strings.Compare(a.typ, b.typ))
		})
		for _, q := range slices.Compact(pairs) {
			if root := x.roots[q.id]; root != nil {
				scopes = append(scopes, distinctScope{root: root})
			}
		}
	}
	return scopes
}

// reached returns a condition that is true from the first root of the scope for which in returns true. in must return
// true for all later roots of the scope.
func (s *distinctScope) reached(in func(n *distinctNode) bool) func(n **distinctNode) bool {
	return func(n **distinctNode) bool {
		order := 0
		switch {
		case s.client != "":
			order = strings.Compare((*n).q.client, s.client)
		case s.typ != "":
			order = strings.Compare((*n).q.typ, s.typ)
		}
		return order > 0 || order == 0 && in(*n)
	}
}

// firstWhere returns the first root of the scope for which in returns true, or nil.
func (s *distinctScope) firstWhere(in func(n *distinctNode) bool) *distinctNode {
	if s.tree == nil {
		if s.root.placed && in(s.root) {
			return s.root
		}
		return nil
	}
	found := s.tree.firstWhere(s.reached(in))
	if found == nil || s.client != "" && (*found).q.client != s.client || s.typ != "" && (*found).q.typ != s.typ {
		return nil
	}
	return *found
}

// tied returns how many leaves of the scope have a rank, which must be the best one in the scope, and how much weight
// of the tree precedes them.
func (s *distinctScope) tied(rank *distinctRank) (jobs, before int64) {
	if s.tree == nil {
		if s.root.placed && compareTies(&s.root.rank, rank) == 0 {
			return s.root.tied, 0
		}
		return 0, 0
	}
	before = s.tree.upTo(s.reached(func(*distinctNode) bool { return true }))
	return s.tree.upTo(s.reached(func(n *distinctNode) bool { return compareTies(&n.rank, rank) > 0 })) - before, before
}

// cost is about how much work it takes to find the first root of a scope.
func (s *distinctScope) cost() int {
	if s.tree == nil {
		return 2
	}
	return 50
}

// next returns the job that a claim takes next in the order of the index, and about how much work finding it took.
// served is the client that Fair served last, and random determines the draw of Random.
func (x *distinctIndex) next(scopes []distinctScope, served string, random uint64) (pick distinctPick, cost int) {
	var best *distinctNode
	better := func(n *distinctNode) {
		if n != nil && (best == nil || x.comesFirst(n, best, served)) {
			best = n
		}
	}
	for i := range scopes {
		cost += scopes[i].cost()
		first := scopes[i].firstWhere(func(*distinctNode) bool { return true })
		better(first)
		if x.base == job.Fair && first != nil { // of the same rank, the client after the one served last
			better(scopes[i].firstWhere(func(n *distinctNode) bool {
				order := compareTies(&n.rank, &first.rank)
				return order > 0 || order == 0 && n.q.client > served
			}))
		}
	}
	if best == nil {
		return pick, cost
	}
	n, place := best, int64(0)
	if x.base == job.Random {
		cost *= 3
		n, place = drawTied(scopes, &best.rank, random)
	}
	pick.q, pick.more = n.q, x.base == job.Oldest || x.base == job.Newest
	for n.depth < len(x.keys) {
		child := n.children.min()
		if x.base == job.Random {
			child, place = n.children.find(place)
		}
		n = *child
		pick.more = pick.more && (n.value == nil || x.lined == 1)
	}
	pick.leaf, pick.first = n, n.first
	return pick, cost + 100
}

// ahead returns spans that a claim is likely to take next: the first spans of the best siblings of a leaf.
func (n *distinctNode) ahead(most int) (ends []position) {
	n.parent.children.some(most, func(c *distinctNode) bool {
		ends = append(ends, c.first.end())
		return true
	})
	slices.SortFunc(ends, comparePositions)
	return ends
}

// distinctSeen is some pending spans of a queue whose jobs have the same values of the keys.
type distinctSeen struct {
	distinctSeenName
	q     *distinctQueue
	spans []waiting // in the order of the strategy
	rank  distinctRank
}

type distinctSeenName struct {
	id     uint32 // of the queue
	values [job.MaxDistinctKeys]*distinctValue
}

// look returns some leaves of the scopes, the best ones of each node, and about how much work finding them took.
func (x *distinctIndex) look(scopes []distinctScope, looks int) (seen []*distinctSeen, cost int) {
	width := max(1, looks/8) // of each node
	var walk func(n *distinctNode)
	walk = func(n *distinctNode) {
		if n.depth < len(x.keys) {
			n.children.some(width, func(c *distinctNode) bool {
				walk(c)
				return len(seen) < 4*looks
			})
			return
		}
		s := &distinctSeen{q: n.q, spans: []waiting{n.first}}
		s.id = n.q.id
		for at := n; at.depth > 0; at = at.parent {
			s.values[x.levels[at.depth-1]] = at.value
		}
		seen = append(seen, s)
	}
	for i := range scopes {
		s := &scopes[i]
		cost += s.cost()
		if s.tree == nil {
			if s.root.placed {
				walk(s.root)
			}
			continue
		}
		from := s.reached(func(*distinctNode) bool { return true })
		s.tree.someFrom(width, from, func(n *distinctNode) bool {
			if s.client != "" && n.q.client != s.client || s.typ != "" && n.q.typ != s.typ {
				return false
			}
			walk(n)
			return len(seen) < 4*looks
		})
	}
	return seen, cost + 10*len(seen)
}

// best returns the job, among the seen leaves, that a claim takes next, and about how much work finding it took.
func (x *distinctIndex) best(seen []*distinctSeen, c *choice, served string, random uint64) (pick distinctPick, cost int) {
	var ties []*distinctSeen
	for _, s := range seen {
		s.rank = distinctRank{first: s.spans[0]}
		for key := range x.keys {
			if v := s.values[key]; v != nil {
				s.rank.counts[key] = v.active
			}
		}
		switch {
		case len(ties) == 0 || compareTies(&s.rank, &ties[0].rank) < 0:
			ties = append(ties[:0], s)
		case compareTies(&s.rank, &ties[0].rank) == 0:
			ties = append(ties, s)
		}
	}
	cost = 5 * len(seen)
	if len(ties) == 0 {
		return pick, cost
	}
	var s *distinctSeen
	switch x.base {
	case job.Random:
		slices.SortFunc(ties, func(a, b *distinctSeen) int { return x.compareSeen(a, b, c) })
		s, cost = ties[random%uint64(len(ties))], cost+20*len(ties)
	case job.Fair:
		s = slices.MinFunc(ties, func(a, b *distinctSeen) int {
			return cmp.Or(compareTurns(a.q.client, b.q.client, served), x.compareWaiting(&a.spans[0], &b.spans[0]))
		})
	default:
		s = slices.MinFunc(ties, func(a, b *distinctSeen) int { return x.compareWaiting(&a.spans[0], &b.spans[0]) })
	}
	return distinctPick{q: s.q, first: s.spans[0], seen: s, more: x.base != job.Random && x.base != job.Fair && s.values == distinctSeenName{}.values}, cost
}

// compareSeen orders leaves of the same rank in the index's order for Random.
func (x *distinctIndex) compareSeen(a, b *distinctSeen, c *choice) int {
	clients, types := strings.Compare(a.q.client, b.q.client), strings.Compare(a.q.typ, b.q.typ)
	if len(c.clients) == 0 && len(c.types) > 0 {
		clients, types = types, clients
	}
	if order := cmp.Or(clients, types); order != 0 {
		return order
	}
	for _, key := range x.levels {
		if order := compareValues(a.values[key], b.values[key]); order != 0 {
			return order
		}
	}
	return 0
}

// compareTurns orders clients as Fair serves them after it served one.
func compareTurns(a, b, served string) int {
	turn := func(client string) int {
		if client > served {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(turn(a), turn(b)), strings.Compare(a, b))
}

// comesFirst reports whether a claim takes the best job of root a before the best job of root b.
func (x *distinctIndex) comesFirst(a, b *distinctNode, served string) bool {
	order := compareTies(&a.rank, &b.rank)
	if order == 0 && x.base == job.Fair {
		order = compareTurns(a.q.client, b.q.client, served)
	}
	return cmp.Or(order, x.compareWaiting(&a.rank.first, &b.rank.first)) < 0
}

// drawTied draws one of the leaves that have the best rank, each with the same chance. It returns the leaf's root, and
// the leaf's place among the root's best leaves.
func drawTied(scopes []distinctScope, rank *distinctRank, random uint64) (root *distinctNode, place int64) {
	total := int64(0)
	jobs, befores := make([]int64, len(scopes)), make([]int64, len(scopes))
	for i := range scopes {
		jobs[i], befores[i] = scopes[i].tied(rank)
		total += jobs[i]
	}
	place = int64(random % uint64(total))
	for i := range scopes {
		if place >= jobs[i] {
			place -= jobs[i]
			continue
		}
		if scopes[i].tree == nil {
			return scopes[i].root, place
		}
		found, rest := scopes[i].tree.find(befores[i] + place)
		return *found, rest
	}
	panic("store: the roots count more leaves than they have")
}
