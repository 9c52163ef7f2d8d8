package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// distinctPick is the job that a claim by prefer_distinct takes next.
type distinctPick struct {
	q      *queue
	end    position // of its span
	leaf   *distinctNode
	before int64 // how many jobs of the span come before it; for Random only
	// more: the jobs of the span that follow in the order of the base come next, because handing them out changes no rank
	// or there are no others.
	more bool
}

// distinctScope is a part of the roots of an index in which a claim looks: all of them, those of a client or type, or
// one.
type distinctScope struct {
	tree        *weightedTree[*distinctNode] // nil: one
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
			if root := x.roots[q]; root != nil && root.placed {
				scopes = append(scopes, distinctScope{root: root})
			}
		}
	}
	return scopes
}

// reached returns a condition that is true from the first root of the scope for which in is true, and for all after it.
// in must be true for all roots of the scope after that one.
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

// firstWhere returns the first root of the scope for which in is true, or nil.
func (s *distinctScope) firstWhere(in func(n *distinctNode) bool) *distinctNode {
	if s.tree == nil {
		if in(s.root) {
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

// tied returns how many jobs of the scope have a rank that no job of it is before, and how much weight of the tree comes
// before them.
func (s *distinctScope) tied(rank *distinctRank) (jobs, before int64) {
	if s.tree == nil {
		if compareTies(&s.root.rank, rank) == 0 {
			return s.root.tied, 0
		}
		return 0, 0
	}
	before = s.tree.upTo(s.reached(func(*distinctNode) bool { return true }))
	return s.tree.upTo(s.reached(func(n *distinctNode) bool { return compareTies(&n.rank, rank) > 0 })) - before, before
}

// next returns the job that a claim takes next. ok is false if there is none. served is the client that Fair served
// last, and random decides what Random draws.
func (x *distinctIndex) next(c choice, served string, random uint64) (pick distinctPick, ok bool) {
	scopes := x.scopes(c)
	var best *distinctNode
	better := func(n *distinctNode) {
		if n != nil && (best == nil || x.comesFirst(n, best, served)) {
			best = n
		}
	}
	for i := range scopes {
		first := scopes[i].firstWhere(func(*distinctNode) bool { return true })
		better(first)
		if x.base == job.Fair && first != nil { // of the same rank, the client after the one that was served last
			better(scopes[i].firstWhere(func(n *distinctNode) bool {
				order := compareTies(&n.rank, &first.rank)
				return order > 0 || order == 0 && n.q.client > served
			}))
		}
	}
	if best == nil {
		return pick, false
	}
	n, place := best, int64(0)
	if x.base == job.Random {
		n, place = drawTied(scopes, &best.rank, random)
	}
	pick.q, pick.more = n.q, x.base == job.Oldest || x.base == job.Newest
	for n.depth < len(x.keys) {
		child := n.children.min()
		if x.base == job.Random {
			child, place = n.children.find(place)
		}
		n = *child
		pick.more = pick.more && (n.value == nil || x.leaves == 1)
	}
	w := n.spans.min()
	if x.base == job.Random {
		w, pick.before = n.spans.find(place)
	}
	pick.leaf, pick.end = n, w.end()
	return pick, true
}

// ahead returns spans that are likely to be taken next: the first ones of the best siblings of a leaf.
func (n *distinctNode) ahead(most int) (ends []position) {
	var walk func(at *weightedNode[*distinctNode])
	walk = func(at *weightedNode[*distinctNode]) {
		if at == nil || len(ends) == most {
			return
		}
		if walk(at.left); len(ends) < most {
			ends = append(ends, at.item.spans.min().end())
			walk(at.right)
		}
	}
	walk(n.parent.children.root)
	return ends
}

// comesFirst reports whether the best job of root a is taken before that of root b.
func (x *distinctIndex) comesFirst(a, b *distinctNode, served string) bool {
	order := compareTies(&a.rank, &b.rank)
	if order == 0 && x.base == job.Fair {
		turn := func(n *distinctNode) int {
			if n.q.client > served {
				return 0
			}
			return 1
		}
		order = cmp.Or(cmp.Compare(turn(a), turn(b)), strings.Compare(a.q.client, b.q.client))
	}
	return cmp.Or(order, x.compareWaiting(&a.rank.first, &b.rank.first)) < 0
}

// drawTied returns the root of one of the jobs that have the best rank, each with the same chance, and the job's place
// among those of the root.
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
	panic("store: the roots count more jobs than they have")
}
