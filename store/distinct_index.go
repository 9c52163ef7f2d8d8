package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// distinctIndex orders the pending spans for one strategy of prefer_distinct. It is kept in memory only, and everything
// in it follows from stored state: the spans that are pending or active, and the meta of their groups. So an index that
// is built now orders the spans as one that has been kept for a long time.
//
// It is a tree for each queue. The root stands for the queue, and each level below it for a key of the strategy: a node
// stands for the jobs that have the same values of the keys down to its level. A leaf holds pending spans in the order of
// the base strategy. Each node has the rank of the best job below it, and a parent has its children in the order of
// their ranks. The roots are ordered like that too: all of them, by client and by type.
//
// A rank within a node leaves out the keys above the node, because their values are the same for all jobs below it. So
// if the number of active jobs of a value changes, only the nodes of this value and those above them move; nothing below
// them does. This takes logarithmic time for each node of the value. A value of the key of the first level has one node
// in each queue; one of another key has a node for each combination of the keys above it that occurs with it. So keys
// with few values are at the top, whatever their order in the strategy: of users within regions, the regions.
type distinctIndex struct {
	strategy job.Strategy
	base     job.Strategy
	keys     []string                       // of the strategy, the outermost first
	levels   []int                          // the numbers of the keys of the levels below the roots
	values   []map[valueName]*distinctValue // by key: the values that have active jobs or nodes
	roots    map[*queue]*distinctNode
	nodes    map[nodeName]*distinctNode // all but the roots
	leaves   int

	// The roots of queues that are not paused.
	all      weightedTree[*distinctNode]
	byClient weightedTree[*distinctNode]
	byType   weightedTree[*distinctNode]

	childOrder weightedOrder[*distinctNode]
	spanOrder  weightedOrder[waiting]

	usedAt int64 // time of the last command that used it
}

// valueName is a value of a key. Values of different clients are different.
type valueName struct{ client, text string }

type distinctValue struct {
	valueName
	active int64 // jobs
	nodes  []*distinctNode
}

// nodeName is a node by its parent and value; nil: of the jobs without the key.
type nodeName struct {
	parent *distinctNode
	value  *distinctValue
}

type distinctNode struct {
	nodeName
	q      *queue
	at     int // in the nodes of value
	depth  int // 0: a root
	placed bool
	rank   distinctRank
	// tied is how many jobs below the node have its rank; it is counted only for Random.
	tied     int64
	children weightedTree[*distinctNode]
	spans    weightedTree[waiting] // of a leaf
}

// distinctRank is the rank of a job: by priority, by the active jobs of its values, then by the order of the base.
type distinctRank struct {
	counts [job.MaxDistinctKeys]int64
	first  waiting // for Random, only its priority
}

// waiting is a pending span by what orders it.
type waiting struct {
	order, seq     uint64
	priority, last uint32
	class          job.Class
}

// waiting returns what orders a pending span.
func (sp *span) waiting(b *batch, g *group) waiting {
	id := sp.lane(g)
	return waiting{sp.orderIn(b), b.seq, id.priority, sp.last, id.class}
}

func (w *waiting) end() position { return position{w.seq, w.last} }

// compareTies compares ranks without the order of the base strategy.
func compareTies(a, b *distinctRank) int {
	if a.first.priority != b.first.priority {
		return cmp.Compare(b.first.priority, a.first.priority)
	}
	for i := range a.counts {
		if a.counts[i] != b.counts[i] {
			return cmp.Compare(a.counts[i], b.counts[i])
		}
	}
	return 0
}

// compareWaiting orders the spans of one priority.
func (x *distinctIndex) compareWaiting(a, b *waiting) int {
	if x.base == job.Newest {
		a, b = b, a
	}
	switch { // cmp.Or would compare everything, and this is called often
	case a.class != b.class:
		return cmp.Compare(a.class, b.class)
	case a.order != b.order:
		return cmp.Compare(a.order, b.order)
	case a.seq != b.seq:
		return cmp.Compare(a.seq, b.seq)
	}
	return cmp.Compare(a.last, b.last)
}

// compareRanks orders nodes by rank.
func (x *distinctIndex) compareRanks(a, b *distinctRank) int {
	if order := compareTies(a, b); order != 0 {
		return order
	}
	return x.compareWaiting(&a.first, &b.first)
}

func newDistinctIndex(s job.Strategy) *distinctIndex {
	x := &distinctIndex{strategy: s, base: s.Base(), keys: s.DistinctKeys(), roots: map[*queue]*distinctNode{}, nodes: map[nodeName]*distinctNode{}}
	for key := range x.keys {
		x.levels = append(x.levels, key)
		x.values = append(x.values, map[valueName]*distinctValue{})
	}
	x.spanOrder.compare = func(a, b *waiting) int {
		if a.priority != b.priority {
			return cmp.Compare(b.priority, a.priority)
		}
		return x.compareWaiting(a, b)
	}
	x.childOrder.compare = func(a, b **distinctNode) int {
		if order := x.compareRanks(&(*a).rank, &(*b).rank); order != 0 {
			return order
		}
		return compareValues((*a).value, (*b).value)
	}
	// rank orders roots. Random gives ties a fixed order; Fair has the clients one after another.
	rank := func(a, b *distinctNode) int {
		if x.base == job.Fair {
			if order := cmp.Or(compareTies(&a.rank, &b.rank), strings.Compare(a.q.client, b.q.client)); order != 0 {
				return order
			}
		}
		return x.compareRanks(&a.rank, &b.rank)
	}
	names := func(a, b *distinctNode) int {
		return cmp.Or(strings.Compare(a.q.client, b.q.client), strings.Compare(a.q.typ, b.q.typ))
	}
	x.all = newWeightedTree(func(a, b **distinctNode) int { return cmp.Or(rank(*a, *b), names(*a, *b)) })
	x.byClient = newWeightedTree(func(a, b **distinctNode) int {
		return cmp.Or(strings.Compare((*a).q.client, (*b).q.client), rank(*a, *b), names(*a, *b))
	})
	x.byType = newWeightedTree(func(a, b **distinctNode) int {
		return cmp.Or(strings.Compare((*a).q.typ, (*b).q.typ), rank(*a, *b), names(*a, *b))
	})
	return x
}

// compareValues orders the children of a node that have the same rank.
func compareValues(a, b *distinctValue) int {
	switch {
	case a == b:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return strings.Compare(a.text, b.text)
}

// value returns the value that a group has of a key; nil if it has none.
func (x *distinctIndex) value(key int, q *queue, g *group) *distinctValue {
	text, ok := g.Meta.Get(x.keys[key])
	if !ok {
		return nil
	}
	name := valueName{q.client, text}
	v := x.values[key][name]
	if v == nil {
		v = &distinctValue{valueName: name}
		x.values[key][name] = v
	}
	return v
}

// leaf returns the leaf of the pending jobs of a group. A new one is empty, and must get a span before it is ranked.
func (x *distinctIndex) leaf(q *queue, g *group) *distinctNode {
	n := x.root(q)
	for _, key := range x.levels {
		n = x.child(n, x.value(key, q, g))
	}
	return n
}

func (x *distinctIndex) root(q *queue) *distinctNode {
	n := x.roots[q]
	if n == nil {
		n = &distinctNode{q: q}
		n.children.order = &x.childOrder
		x.roots[q] = n
	}
	return n
}

// child returns the child of a node for a value.
func (x *distinctIndex) child(parent *distinctNode, v *distinctValue) *distinctNode {
	n := x.nodes[nodeName{parent, v}]
	if n == nil {
		n = &distinctNode{q: parent.q, depth: parent.depth + 1}
		n.children.order, n.spans.order = &x.childOrder, &x.spanOrder
		x.adopt(parent, v, n)
		if n.depth == len(x.keys) {
			x.leaves++
		}
	}
	return n
}

// adopt makes a node the child of another one for a value.
func (x *distinctIndex) adopt(parent *distinctNode, v *distinctValue, n *distinctNode) {
	n.nodeName = nodeName{parent, v}
	x.nodes[n.nodeName] = n
	if v != nil {
		n.at = len(v.nodes)
		v.nodes = append(v.nodes, n)
	}
}

// countActive adds to the active jobs of the values of a group, without ranking their nodes again.
func (x *distinctIndex) countActive(q *queue, g *group, jobs int64) {
	for key := range x.keys {
		if v := x.value(key, q, g); v != nil {
			v.active += jobs
		}
	}
}

// moved follows a move of lines of a group: the spans that there were and that there are now, and how many jobs more are
// active.
func (x *distinctIndex) moved(q *queue, b *batch, g *group, olds, news []span, active int64) {
	var leaf *distinctNode
	for i := range olds {
		if o := &olds[i]; o.Status == job.Pending {
			leaf = x.leaf(q, g)
			if w := o.waiting(b, g); !slicesHavePending(news, b, g, w) {
				leaf.spans.remove(&w)
			}
		}
	}
	for i := range news {
		if n := &news[i]; n.Status == job.Pending {
			leaf = x.leaf(q, g)
			leaf.spans.set(n.waiting(b, g), int64(n.last-n.first)+1)
		}
	}
	if active != 0 {
		x.countActive(q, g, active)
	}
	if leaf != nil {
		x.rerank(leaf)
	}
	if active == 0 && leaf == nil {
		return
	}
	for key := range x.keys {
		v := x.value(key, q, g)
		if v == nil {
			continue
		}
		if active != 0 {
			for _, n := range v.nodes {
				x.rerank(n)
			}
		}
		if v.active == 0 && len(v.nodes) == 0 {
			delete(x.values[key], v.valueName)
		}
	}
}

// slicesHavePending reports whether one of some spans is pending in a place in line.
func slicesHavePending(spans []span, b *batch, g *group, w waiting) bool {
	for i := range spans {
		if sp := &spans[i]; sp.Status == job.Pending && sp.waiting(b, g) == w {
			return true
		}
	}
	return false
}

// rerank puts a node in its place again, and those above it, after its spans, its children or its value have changed.
// An empty node is removed.
func (x *distinctIndex) rerank(n *distinctNode) {
	for n != nil {
		parent := n.parent
		if n.spans.root == nil && n.children.root == nil {
			x.unplace(n)
			x.remove(n)
			n = parent
			continue
		}
		rank, tied := x.rankOf(n)
		if n.depth == 0 && n.q.paused {
			x.unplace(n)
			return
		}
		if n.placed && rank == n.rank && tied == n.tied {
			return
		}
		if n.placed && rank != n.rank {
			x.unplace(n)
		}
		n.rank, n.tied = rank, tied
		x.place(n)
		n = parent
	}
}

// rankOf returns the rank of the best job below a node, and for Random how many jobs have it.
func (x *distinctIndex) rankOf(n *distinctNode) (rank distinctRank, tied int64) {
	if n.depth == len(x.keys) {
		if rank.first = *n.spans.min(); x.base == job.Random {
			rank.first = waiting{priority: rank.first.priority}
			tied = n.spans.upTo(func(w *waiting) bool { return w.priority < rank.first.priority })
		}
	} else if rank = (*n.children.min()).rank; x.base == job.Random {
		tied = n.children.upTo(func(c **distinctNode) bool { return compareTies(&(*c).rank, &rank) > 0 })
	}
	if n.value != nil {
		rank.counts[x.levels[n.depth-1]] = n.value.active
	}
	return rank, tied
}

// place puts a node among its siblings, or gives it another weight there.
func (x *distinctIndex) place(n *distinctNode) {
	n.placed = true
	if n.depth > 0 {
		n.parent.children.set(n, n.tied)
		return
	}
	x.all.set(n, n.tied)
	x.byClient.set(n, n.tied)
	x.byType.set(n, n.tied)
}

func (x *distinctIndex) unplace(n *distinctNode) {
	if !n.placed {
		return
	}
	n.placed = false
	if n.depth > 0 {
		n.parent.children.remove(&n)
		return
	}
	x.all.remove(&n)
	x.byClient.remove(&n)
	x.byType.remove(&n)
}

// remove forgets a node without spans.
func (x *distinctIndex) remove(n *distinctNode) {
	if n.depth == 0 {
		delete(x.roots, n.q)
		return
	}
	delete(x.nodes, n.nodeName)
	if n.depth == len(x.keys) {
		x.leaves--
	}
	if v := n.value; v != nil {
		last := v.nodes[len(v.nodes)-1]
		v.nodes[n.at], last.at = last, n.at
		v.nodes[len(v.nodes)-1] = nil
		v.nodes = v.nodes[:len(v.nodes)-1]
	}
}

// arrange puts the keys with fewer values above those with more, as far as their numbers of values have different
// logarithms to the base step. Keys with about as many values are in the order of the strategy. The order follows from
// what is pending and active when a claim begins: in it, Random counts jobs of the same rank. The number of values must
// change much before the order does, since this takes time for each node.
func (x *distinctIndex) arrange(step int) {
	logarithms := make([]int, len(x.keys))
	levels := make([]int, len(x.keys))
	for key := range x.keys {
		for n := len(x.values[key]); n >= step; n /= step {
			logarithms[key]++
		}
		levels[key] = key
	}
	slices.SortStableFunc(levels, func(a, b int) int { return cmp.Compare(logarithms[a], logarithms[b]) })
	if slices.Equal(levels, x.levels) {
		return
	}
	var leaves []*distinctNode
	var values [][job.MaxDistinctKeys]*distinctValue // of the leaves, by key
	for _, n := range x.nodes {
		if n.value != nil {
			n.value.nodes = nil
		}
		if n.depth == len(x.keys) {
			var of [job.MaxDistinctKeys]*distinctValue
			for at := n; at.depth > 0; at = at.parent {
				of[x.levels[at.depth-1]] = at.value
			}
			leaves, values = append(leaves, n), append(values, of)
		}
	}
	x.levels = levels
	clear(x.roots)
	clear(x.nodes)
	x.all.root, x.byClient.root, x.byType.root = nil, nil, nil
	for i, leaf := range leaves {
		parent := x.root(leaf.q)
		for _, key := range levels[:len(levels)-1] {
			parent = x.child(parent, values[i][key])
		}
		x.adopt(parent, values[i][levels[len(levels)-1]], leaf)
	}
	x.rankAll()
}

// rankAll ranks all nodes of an index that was just filled.
func (x *distinctIndex) rankAll() {
	levels := make([]map[*distinctNode][]*distinctNode, len(x.keys)+1)
	for _, n := range x.nodes {
		if levels[n.depth] == nil {
			levels[n.depth] = map[*distinctNode][]*distinctNode{}
		}
		levels[n.depth][n.parent] = append(levels[n.depth][n.parent], n)
	}
	for depth := len(x.keys); depth > 0; depth-- {
		for parent, children := range levels[depth] {
			for _, n := range children {
				n.rank, n.tied = x.rankOf(n)
				n.placed = true
			}
			parent.children.sortAndFill(children, func(n **distinctNode) int64 { return (*n).tied })
		}
	}
	for _, root := range x.roots {
		if root.rank, root.tied = x.rankOf(root); !root.q.paused {
			x.place(root)
		}
	}
}
