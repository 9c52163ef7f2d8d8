package store

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
)

// distinctIndex orders pending jobs for one strategy of prefer_distinct. Memory has a leaf for each combination of
// queue and values with waiting jobs. The database has the rows of each leaf's spans. Memory can always be rebuilt from
// rows, and its size is bounded: see distinctBytes.
//
// The index is a tree for each queue. The root is for the queue, and each level below it for a key of the strategy. A
// node is for the jobs that have the same values of the keys down to its level. The lowest nodes are the leaves. Each
// node has the rank of the best job below it, and a parent orders its children by their ranks. The roots are ordered in
// the same way: all of them, by client and by type.
//
// A rank within a node leaves out the keys above the node, because their values are the same for all jobs below it. So
// if the number of active jobs of a value changes, only the nodes of this value and the nodes above them move; the
// nodes below them do not. A value of the first level's key has one node in each queue. A value of a lower key has a
// node for each combination of the upper keys that it occurs with. So keys with few values are at the top: of users
// within regions, the regions. A value that has many nodes nevertheless is wide, and its active jobs do not count in
// the order: a claim counts them in the leaves that it looks at.
type distinctIndex struct {
	distinctState
	base   job.Strategy
	keys   []string                       // of the strategy, the outermost first
	values []map[valueName]*distinctValue // by key: the values that have nodes
	roots  map[uint32]*distinctNode       // by number of the queue
	nodes  map[nodeName]*distinctNode     // all but the roots
	lined  int                            // leaves
	bytes  int                            // about the memory of the nodes and values
	wide   int                            // values
	most   int                            // a value with more nodes is wide

	// The roots of queues that are not paused.
	all      weightedTree[*distinctNode]
	byClient weightedTree[*distinctNode]
	byType   weightedTree[*distinctNode]

	childOrder weightedOrder[*distinctNode]

	unsettled []*distinctValue
	unwritten []*distinctNode // leaves whose rows the next commit writes
	dirty     bool            // on the machine's list of unwritten rows
	gone      bool
}

// distinctQueue is a queue with a root.
type distinctQueue struct {
	queueName
	id     uint32
	paused bool
}

// About how much memory an index takes, without texts.
const (
	distinctRootBytes  = 550
	distinctNodeBytes  = 350
	distinctValueBytes = 200
)

type distinctValue struct {
	valueName
	active    int64 // jobs
	ranked    int64 // active jobs, as counted in the ranks of the nodes
	wide      bool
	unsettled bool
	nodes     []*distinctNode
}

// nodeName identifies a node by its parent and value; a nil value is for the jobs without the key.
type nodeName struct {
	parent *distinctNode
	value  *distinctValue
}

type distinctNode struct {
	nodeName
	q      *distinctQueue
	at     int // in the nodes of value
	depth  int // 0: a root
	placed bool
	rank   distinctRank
	// tied is how many leaves below the node have its rank. Only Random needs it.
	tied     int64
	children weightedTree[*distinctNode]
	// Of a leaf:
	id    uint64
	spans int64   // pending ones
	first waiting // of them
	dirty bool    // on the list of unwritten leaves
}

// distinctRank is the rank of a job: by priority, then by the number of active jobs of its values, then by the base
// order.
type distinctRank struct {
	counts [job.MaxDistinctKeys]int64
	first  waiting // for Random, only its priority
}

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
	switch { // cmp.Or would compare all fields, and this is called often
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

// newDistinctIndex returns an empty index. A value with more than most nodes is wide.
func newDistinctIndex(s distinctState, most int) *distinctIndex {
	x := &distinctIndex{distinctState: s, base: s.strategy.Base(), keys: s.strategy.DistinctKeys(), most: most}
	x.clear()
	x.childOrder.compare = func(a, b **distinctNode) int {
		if order := x.compareRanks(&(*a).rank, &(*b).rank); order != 0 {
			return order
		}
		return compareValues((*a).value, (*b).value)
	}
	// rank orders roots. Random gives ties a fixed order; Fair orders them by client.
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

// clear empties the line of pending jobs.
func (x *distinctIndex) clear() {
	x.values = make([]map[valueName]*distinctValue, len(x.keys))
	for key := range x.keys {
		x.values[key] = map[valueName]*distinctValue{}
	}
	x.roots, x.nodes = map[uint32]*distinctNode{}, map[nodeName]*distinctNode{}
	x.lined, x.bytes, x.wide = 0, 0, 0
	x.all.root, x.byClient.root, x.byType.root = nil, nil, nil
	x.unsettled, x.unwritten = nil, nil
}

// compareSpans orders the spans of a leaf.
func (x *distinctIndex) compareSpans(a, b *waiting) int {
	if a.priority != b.priority {
		return cmp.Compare(b.priority, a.priority)
	}
	return x.compareWaiting(a, b)
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

// value returns a value of a key. If the value is new, active returns how many active jobs it has.
func (x *distinctIndex) value(key int, name valueName, active func(key int, name valueName) int64) *distinctValue {
	v := x.values[key][name]
	if v == nil {
		name.text = strings.Clone(name.text) // so that it keeps no other memory alive
		v = &distinctValue{valueName: name, active: active(key, name)}
		v.ranked = v.active
		x.values[key][name] = v
		x.bytes += distinctValueBytes + len(name.text)
	}
	return v
}

// leaf returns the leaf of a queue for some values, by key; nil means that the key is missing. A new leaf is empty, and
// must get a span before it is ranked.
func (x *distinctIndex) leaf(q *queue, values *[job.MaxDistinctKeys]*distinctValue) *distinctNode {
	n := x.roots[q.id]
	if n == nil {
		n = &distinctNode{q: &distinctQueue{q.queueName, q.id, q.paused}}
		n.children.order = &x.childOrder
		x.roots[q.id] = n
		x.bytes += distinctRootBytes
	}
	for _, key := range x.levels {
		n = x.child(n, values[key])
	}
	return n
}

// child returns the child of a node for a value.
func (x *distinctIndex) child(parent *distinctNode, v *distinctValue) *distinctNode {
	n := x.nodes[nodeName{parent, v}]
	if n == nil {
		n = &distinctNode{nodeName: nodeName{parent, v}, q: parent.q, depth: parent.depth + 1}
		n.children.order = &x.childOrder
		x.nodes[n.nodeName] = n
		x.bytes += distinctNodeBytes
		if n.depth == len(x.keys) {
			x.lined++
		}
		if v != nil {
			n.at = len(v.nodes)
			v.nodes = append(v.nodes, n)
			x.unsettle(v)
		}
	}
	return n
}

// unsettle records that the active jobs or the nodes of a value have changed.
func (x *distinctIndex) unsettle(v *distinctValue) {
	if !v.unsettled {
		v.unsettled = true
		x.unsettled = append(x.unsettled, v)
	}
}

// settle ranks the nodes of the values that have changed, and forgets values without nodes.
func (x *distinctIndex) settle() {
	for len(x.unsettled) > 0 {
		v := x.unsettled[len(x.unsettled)-1]
		x.unsettled = x.unsettled[:len(x.unsettled)-1]
		v.unsettled = false
		if wide := len(v.nodes) > x.most; wide != v.wide {
			if v.wide = wide; wide {
				x.wide++
			} else {
				x.wide--
			}
		}
		ranked := v.active
		if v.wide {
			ranked = 0
		}
		if ranked != v.ranked {
			v.ranked = ranked
			for _, n := range v.nodes {
				x.rerank(n)
			}
		}
	}
}

// rerank moves a node, and the nodes above it, to their right places after the node's spans, children or value have
// changed. It removes an empty node.
func (x *distinctIndex) rerank(n *distinctNode) {
	for n != nil {
		parent := n.parent
		if n.spans == 0 && n.children.root == nil {
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

// rankOf returns the rank of the best job below a node, and for Random how many leaves have this rank.
func (x *distinctIndex) rankOf(n *distinctNode) (rank distinctRank, tied int64) {
	if n.depth == len(x.keys) {
		if rank.first = n.first; x.base == job.Random {
			rank.first, tied = waiting{priority: rank.first.priority}, 1
		}
	} else if rank = (*n.children.min()).rank; x.base == job.Random {
		tied = n.children.upTo(func(c **distinctNode) bool { return compareTies(&(*c).rank, &rank) > 0 })
	}
	if n.value != nil {
		rank.counts[x.levels[n.depth-1]] = n.value.ranked
	}
	return rank, tied
}

// place places a node among its siblings, or changes its weight there.
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
		delete(x.roots, n.q.id)
		x.bytes -= distinctRootBytes
		return
	}
	delete(x.nodes, n.nodeName)
	x.bytes -= distinctNodeBytes
	if n.depth == len(x.keys) {
		x.lined--
	}
	if v := n.value; v != nil {
		last := v.nodes[len(v.nodes)-1]
		v.nodes[n.at], last.at = last, n.at
		v.nodes[len(v.nodes)-1] = nil
		v.nodes = v.nodes[:len(v.nodes)-1]
		if x.unsettle(v); len(v.nodes) == 0 {
			delete(x.values[x.levels[n.depth-1]], v.valueName)
			x.bytes -= distinctValueBytes + len(v.text)
		}
	}
}

// bestLevels returns an order of the levels that puts keys with fewer values above keys with more. It compares only the
// logarithms, to the base step, of their numbers of values. Keys with about as many values are in the order of the
// strategy.
func (x *distinctIndex) bestLevels(step int) (levels []int) {
	logarithms := make([]int, len(x.keys))
	for key := range x.keys {
		for n := len(x.values[key]); n >= step; n /= step {
			logarithms[key]++
		}
		levels = append(levels, key)
	}
	slices.SortStableFunc(levels, func(a, b int) int { return cmp.Compare(logarithms[a], logarithms[b]) })
	return levels
}

// rankAll ranks all nodes of an index that was just read.
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

// waitingOf returns the fields of a pending span that order it.
func waitingOf(sp *span, b *batch, g *group) waiting {
	id := sp.lane(g)
	return waiting{sp.orderIn(b), b.seq, id.priority, sp.last, id.class}
}
