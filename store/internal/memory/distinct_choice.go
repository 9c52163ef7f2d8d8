package memory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// DistinctPick is the job that a claim by prefer_distinct takes next.
type DistinctPick struct {
	Q     *DistinctQueue // nil: no job was found
	First row.Waiting    // its span
	// more: the claim may continue with the span's next jobs in the base order, because handing them out changes no
	// rank, or because no other jobs wait.
	More      bool
	Leaf      *DistinctNode // where the job was found, if the index has an order
	Seen      *DistinctSeen // where the job was found, if the index lacks an order
	Lines     int64         // of the span
	HandedOut bool
}

// distinctScope is a part of the roots of an index that a claim looks at: all roots, the roots of a client or type, or
// one root.
type distinctScope struct {
	tree        *WeightedTree[*DistinctNode] // nil: one root
	client, typ string
	root        *DistinctNode
}

// Scopes returns the parts that a choice allows, in the order of the names.
func (x *DistinctIndex) Scopes(c Choice) (scopes []distinctScope) {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	switch {
	case len(c.Clients) == 0 && len(c.Types) == 0:
		return []distinctScope{{tree: &x.All}}
	case len(c.Types) == 0:
		for _, client := range sorted(c.Clients) {
			scopes = append(scopes, distinctScope{tree: &x.ByClient, client: client})
		}
	case len(c.Clients) == 0:
		for _, typ := range sorted(c.Types) {
			scopes = append(scopes, distinctScope{tree: &x.ByType, typ: typ})
		}
	default:
		pairs := slices.Clone(c.pairs)
		slices.SortFunc(pairs, func(a, b *Queue) int {
			return cmp.Or(strings.Compare(a.Client, b.Client), strings.Compare(a.Typ, b.Typ))
		})
		for _, q := range slices.Compact(pairs) {
			if root := x.Roots[q.Id]; root != nil {
				scopes = append(scopes, distinctScope{root: root})
			}
		}
	}
	return scopes
}

// reached returns a condition that is true from the first root of the scope for which in returns true. in must return
// true for all later roots of the scope.
func (s *distinctScope) reached(in func(n *DistinctNode) bool) func(n **DistinctNode) bool {
	return func(n **DistinctNode) bool {
		order := 0
		switch {
		case s.client != "":
			order = strings.Compare((*n).Q.Client, s.client)
		case s.typ != "":
			order = strings.Compare((*n).Q.Typ, s.typ)
		}
		return order > 0 || order == 0 && in(*n)
	}
}

// firstWhere returns the first root of the scope for which in returns true, or nil.
func (s *distinctScope) firstWhere(in func(n *DistinctNode) bool) *DistinctNode {
	if s.tree == nil {
		if s.root.Placed && in(s.root) {
			return s.root
		}
		return nil
	}
	found := s.tree.firstWhere(s.reached(in))
	if found == nil || s.client != "" && (*found).Q.Client != s.client || s.typ != "" && (*found).Q.Typ != s.typ {
		return nil
	}
	return *found
}

// tied returns how many leaves of the scope have a rank, which must be the best one in the scope, and how much weight
// of the tree precedes them.
func (s *distinctScope) tied(rank *DistinctRank) (jobs, before int64) {
	if s.tree == nil {
		if s.root.Placed && compareTies(&s.root.Rank, rank) == 0 {
			return s.root.Tied, 0
		}
		return 0, 0
	}
	before = s.tree.upTo(s.reached(func(*DistinctNode) bool { return true }))
	return s.tree.upTo(s.reached(func(n *DistinctNode) bool { return compareTies(&n.Rank, rank) > 0 })) - before, before
}

// cost is about how much work it takes to find the first root of a scope.
func (s *distinctScope) cost() int {
	if s.tree == nil {
		return 2
	}
	return 50
}

// Next returns the job that a claim takes next in the order of the index, and about how much work finding it took.
// served is the client that Fair served last, and random determines the draw of Random.
func (x *DistinctIndex) Next(scopes []distinctScope, served string, random uint64) (pick DistinctPick, cost int) {
	var best *DistinctNode
	better := func(n *DistinctNode) {
		if n != nil && (best == nil || x.comesFirst(n, best, served)) {
			best = n
		}
	}
	for i := range scopes {
		cost += scopes[i].cost()
		first := scopes[i].firstWhere(func(*DistinctNode) bool { return true })
		better(first)
		if x.Base == job.Fair && first != nil { // of the same rank, the client after the one served last
			better(scopes[i].firstWhere(func(n *DistinctNode) bool {
				order := compareTies(&n.Rank, &first.Rank)
				return order > 0 || order == 0 && n.Q.Client > served
			}))
		}
	}
	if best == nil {
		return pick, cost
	}
	n, place := best, int64(0)
	if x.Base == job.Random {
		cost *= 3
		n, place = drawTied(scopes, &best.Rank, random)
	}
	pick.Q, pick.More = n.Q, x.Base == job.Oldest || x.Base == job.Newest
	for n.Depth < len(x.Keys) {
		child := n.Children.min()
		if x.Base == job.Random {
			child, place = n.Children.Find(place)
		}
		n = *child
		pick.More = pick.More && (n.Value == nil || x.Lined == 1)
	}
	pick.Leaf, pick.First = n, n.First
	return pick, cost + 100
}

// Ahead returns spans that a claim is likely to take next: the first spans of the best siblings of a leaf.
func (n *DistinctNode) Ahead(most int) (ends []row.Position) {
	n.Parent.Children.some(most, func(c *DistinctNode) bool {
		ends = append(ends, c.First.End())
		return true
	})
	slices.SortFunc(ends, row.ComparePositions)
	return ends
}

// DistinctSeen is some pending spans of a queue whose jobs have the same values of the keys.
type DistinctSeen struct {
	DistinctSeenName
	Q     *DistinctQueue
	Spans []row.Waiting // in the order of the strategy
	rank  DistinctRank
}

type DistinctSeenName struct {
	Id     uint32 // of the queue
	Values [job.MaxDistinctKeys]*DistinctValue
}

// Look returns some leaves of the scopes, the best ones of each node, and about how much work finding them took.
func (x *DistinctIndex) Look(scopes []distinctScope, looks int) (seen []*DistinctSeen, cost int) {
	width := max(1, looks/8) // of each node
	var walk func(n *DistinctNode)
	walk = func(n *DistinctNode) {
		if n.Depth < len(x.Keys) {
			n.Children.some(width, func(c *DistinctNode) bool {
				walk(c)
				return len(seen) < 4*looks
			})
			return
		}
		s := &DistinctSeen{Q: n.Q, Spans: []row.Waiting{n.First}}
		s.Id = n.Q.Id
		for at := n; at.Depth > 0; at = at.Parent {
			s.Values[x.Levels[at.Depth-1]] = at.Value
		}
		seen = append(seen, s)
	}
	for i := range scopes {
		s := &scopes[i]
		cost += s.cost()
		if s.tree == nil {
			if s.root.Placed {
				walk(s.root)
			}
			continue
		}
		from := s.reached(func(*DistinctNode) bool { return true })
		s.tree.someFrom(width, from, func(n *DistinctNode) bool {
			if s.client != "" && n.Q.Client != s.client || s.typ != "" && n.Q.Typ != s.typ {
				return false
			}
			walk(n)
			return len(seen) < 4*looks
		})
	}
	return seen, cost + 10*len(seen)
}

// Best returns the job, among the seen leaves, that a claim takes next, and about how much work finding it took.
func (x *DistinctIndex) Best(seen []*DistinctSeen, c *Choice, served string, random uint64) (pick DistinctPick, cost int) {
	var ties []*DistinctSeen
	for _, s := range seen {
		s.rank = DistinctRank{first: s.Spans[0]}
		for key := range x.Keys {
			if v := s.Values[key]; v != nil {
				s.rank.counts[key] = v.Active
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
	var s *DistinctSeen
	switch x.Base {
	case job.Random:
		slices.SortFunc(ties, func(a, b *DistinctSeen) int { return x.compareSeen(a, b, c) })
		s, cost = ties[random%uint64(len(ties))], cost+20*len(ties)
	case job.Fair:
		s = slices.MinFunc(ties, func(a, b *DistinctSeen) int {
			return cmp.Or(compareTurns(a.Q.Client, b.Q.Client, served), x.compareWaiting(&a.Spans[0], &b.Spans[0]))
		})
	default:
		s = slices.MinFunc(ties, func(a, b *DistinctSeen) int { return x.compareWaiting(&a.Spans[0], &b.Spans[0]) })
	}
	return DistinctPick{Q: s.Q, First: s.Spans[0], Seen: s, More: x.Base != job.Random && x.Base != job.Fair && s.Values == DistinctSeenName{}.Values}, cost
}

// compareSeen orders leaves of the same rank in the index's order for Random.
func (x *DistinctIndex) compareSeen(a, b *DistinctSeen, c *Choice) int {
	clients, types := strings.Compare(a.Q.Client, b.Q.Client), strings.Compare(a.Q.Typ, b.Q.Typ)
	if len(c.Clients) == 0 && len(c.Types) > 0 {
		clients, types = types, clients
	}
	if order := cmp.Or(clients, types); order != 0 {
		return order
	}
	for _, key := range x.Levels {
		if order := compareValues(a.Values[key], b.Values[key]); order != 0 {
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
func (x *DistinctIndex) comesFirst(a, b *DistinctNode, served string) bool {
	order := compareTies(&a.Rank, &b.Rank)
	if order == 0 && x.Base == job.Fair {
		order = compareTurns(a.Q.Client, b.Q.Client, served)
	}
	return cmp.Or(order, x.compareWaiting(&a.Rank.first, &b.Rank.first)) < 0
}

// drawTied draws one of the leaves that have the best rank, each with the same chance. It returns the leaf's root, and
// the leaf's place among the root's best leaves.
func drawTied(scopes []distinctScope, rank *DistinctRank, random uint64) (root *DistinctNode, place int64) {
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
		found, rest := scopes[i].tree.Find(befores[i] + place)
		return *found, rest
	}
	panic("store: the roots count more leaves than they have")
}
