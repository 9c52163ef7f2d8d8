package memory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/row"
)

// DistinctIndex orders pending jobs for one strategy of prefer_distinct. Memory has a leaf for each combination of
// queue and values with waiting jobs. The database has the rows of each leaf's spans. Memory can always be rebuilt from
// rows, and its size is bounded: see DistinctBytes.
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
type DistinctIndex struct {
	row.DistinctState
	Base   job.Strategy
	Keys   []string                           // of the strategy, the outermost first
	Values []map[row.ValueName]*DistinctValue // by key: the values that have nodes
	Roots  map[uint32]*DistinctNode           // by number of the queue
	Nodes  map[NodeName]*DistinctNode         // all but the roots
	Lined  int                                // leaves
	Bytes  int                                // about the memory of the nodes and values
	Wide   int                                // values
	Most   int                                // a value with more nodes is wide

	// The roots of queues that are not paused.
	All      WeightedTree[*DistinctNode]
	ByClient WeightedTree[*DistinctNode]
	ByType   WeightedTree[*DistinctNode]

	childOrder weightedOrder[*DistinctNode]

	unsettled []*DistinctValue
	Unwritten []*DistinctNode // leaves whose rows the next commit writes
	Dirty     bool            // on the machine's list of unwritten rows
	Gone      bool
}

// DistinctQueue is a queue with a root.
type DistinctQueue struct {
	row.QueueName
	Id     uint32
	paused bool
}

// About how much memory an index takes, without texts.
const (
	distinctRootBytes  = 550
	distinctNodeBytes  = 350
	distinctValueBytes = 200
)

type DistinctValue struct {
	row.ValueName
	Active    int64 // jobs
	Ranked    int64 // active jobs, as counted in the ranks of the nodes
	Wide      bool
	unsettled bool
	Nodes     []*DistinctNode
}

// NodeName identifies a node by its parent and value; a nil value is for the jobs without the key.
type NodeName struct {
	Parent *DistinctNode
	Value  *DistinctValue
}

type DistinctNode struct {
	NodeName
	Q      *DistinctQueue
	At     int // in the nodes of value
	Depth  int // 0: a root
	Placed bool
	Rank   DistinctRank
	// tied is how many leaves below the node have its rank. Only Random needs it.
	Tied     int64
	Children WeightedTree[*DistinctNode]
	// Of a leaf:
	Id    uint64
	Spans int64       // pending ones
	First row.Waiting // of them
	Dirty bool        // on the list of unwritten leaves
}

// DistinctRank is the rank of a job: by priority, then by the number of active jobs of its values, then by the base
// order.
type DistinctRank struct {
	counts [job.MaxDistinctKeys]int64
	first  row.Waiting // for Random, only its priority
}

// compareTies compares ranks without the order of the base strategy.
func compareTies(a, b *DistinctRank) int {
	if a.first.Priority != b.first.Priority {
		return cmp.Compare(b.first.Priority, a.first.Priority)
	}
	for i := range a.counts {
		if a.counts[i] != b.counts[i] {
			return cmp.Compare(a.counts[i], b.counts[i])
		}
	}
	return 0
}

// compareWaiting orders the spans of one priority.
func (x *DistinctIndex) compareWaiting(a, b *row.Waiting) int {
	if x.Base == job.Newest {
		a, b = b, a
	}
	switch { // cmp.Or would compare all fields, and this is called often
	case a.Class != b.Class:
		return cmp.Compare(a.Class, b.Class)
	case a.Order != b.Order:
		return cmp.Compare(a.Order, b.Order)
	case a.Seq != b.Seq:
		return cmp.Compare(a.Seq, b.Seq)
	}
	return cmp.Compare(a.Last, b.Last)
}

// compareRanks orders nodes by rank.
func (x *DistinctIndex) compareRanks(a, b *DistinctRank) int {
	if order := compareTies(a, b); order != 0 {
		return order
	}
	return x.compareWaiting(&a.first, &b.first)
}

// NewDistinctIndex returns an empty index. A value with more than most nodes is wide.
func NewDistinctIndex(s row.DistinctState, most int) *DistinctIndex {
	x := &DistinctIndex{DistinctState: s, Base: s.Strategy.Base(), Keys: s.Strategy.DistinctKeys(), Most: most}
	x.Clear()
	x.childOrder.compare = func(a, b **DistinctNode) int {
		if order := x.compareRanks(&(*a).Rank, &(*b).Rank); order != 0 {
			return order
		}
		return compareValues((*a).Value, (*b).Value)
	}
	// rank orders roots. Random gives ties a fixed order; Fair orders them by client.
	rank := func(a, b *DistinctNode) int {
		if x.Base == job.Fair {
			if order := cmp.Or(compareTies(&a.Rank, &b.Rank), strings.Compare(a.Q.Client, b.Q.Client)); order != 0 {
				return order
			}
		}
		return x.compareRanks(&a.Rank, &b.Rank)
	}
	names := func(a, b *DistinctNode) int {
		return cmp.Or(strings.Compare(a.Q.Client, b.Q.Client), strings.Compare(a.Q.Typ, b.Q.Typ))
	}
	x.All = newWeightedTree(func(a, b **DistinctNode) int { return cmp.Or(rank(*a, *b), names(*a, *b)) })
	x.ByClient = newWeightedTree(func(a, b **DistinctNode) int {
		return cmp.Or(strings.Compare((*a).Q.Client, (*b).Q.Client), rank(*a, *b), names(*a, *b))
	})
	x.ByType = newWeightedTree(func(a, b **DistinctNode) int {
		return cmp.Or(strings.Compare((*a).Q.Typ, (*b).Q.Typ), rank(*a, *b), names(*a, *b))
	})
	return x
}

// Clear empties the line of pending jobs.
func (x *DistinctIndex) Clear() {
	x.Values = make([]map[row.ValueName]*DistinctValue, len(x.Keys))
	for key := range x.Keys {
		x.Values[key] = map[row.ValueName]*DistinctValue{}
	}
	x.Roots, x.Nodes = map[uint32]*DistinctNode{}, map[NodeName]*DistinctNode{}
	x.Lined, x.Bytes, x.Wide = 0, 0, 0
	x.All.Root, x.ByClient.Root, x.ByType.Root = nil, nil, nil
	x.unsettled, x.Unwritten = nil, nil
}

// CompareSpans orders the spans of a leaf.
func (x *DistinctIndex) CompareSpans(a, b *row.Waiting) int {
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority)
	}
	return x.compareWaiting(a, b)
}

// compareValues orders the children of a node that have the same rank.
func compareValues(a, b *DistinctValue) int {
	switch {
	case a == b:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return strings.Compare(a.Text, b.Text)
}

// Value returns a value of a key. If the value is new, active returns how many active jobs it has.
func (x *DistinctIndex) Value(key int, name row.ValueName, active func(key int, name row.ValueName) int64) *DistinctValue {
	v := x.Values[key][name]
	if v == nil {
		name.Text = strings.Clone(name.Text) // so that it keeps no other memory alive
		v = &DistinctValue{ValueName: name, Active: active(key, name)}
		v.Ranked = v.Active
		x.Values[key][name] = v
		x.Bytes += distinctValueBytes + len(name.Text)
	}
	return v
}

// Leaf returns the leaf of a queue for some values, by key; nil means that the key is missing. A new leaf is empty, and
// must get a span before it is ranked.
func (x *DistinctIndex) Leaf(q *Queue, values *[job.MaxDistinctKeys]*DistinctValue) *DistinctNode {
	n := x.Roots[q.Id]
	if n == nil {
		n = &DistinctNode{Q: &DistinctQueue{q.QueueName, q.Id, q.Paused}}
		n.Children.order = &x.childOrder
		x.Roots[q.Id] = n
		x.Bytes += distinctRootBytes
	}
	for _, key := range x.Levels {
		n = x.child(n, values[key])
	}
	return n
}

// child returns the child of a node for a value.
func (x *DistinctIndex) child(parent *DistinctNode, v *DistinctValue) *DistinctNode {
	n := x.Nodes[NodeName{parent, v}]
	if n == nil {
		n = &DistinctNode{NodeName: NodeName{parent, v}, Q: parent.Q, Depth: parent.Depth + 1}
		n.Children.order = &x.childOrder
		x.Nodes[n.NodeName] = n
		x.Bytes += distinctNodeBytes
		if n.Depth == len(x.Keys) {
			x.Lined++
		}
		if v != nil {
			n.At = len(v.Nodes)
			v.Nodes = append(v.Nodes, n)
			x.Unsettle(v)
		}
	}
	return n
}

// Unsettle records that the active jobs or the nodes of a value have changed.
func (x *DistinctIndex) Unsettle(v *DistinctValue) {
	if !v.unsettled {
		v.unsettled = true
		x.unsettled = append(x.unsettled, v)
	}
}

// Settle ranks the nodes of the values that have changed, and forgets values without nodes.
func (x *DistinctIndex) Settle() {
	for len(x.unsettled) > 0 {
		v := x.unsettled[len(x.unsettled)-1]
		x.unsettled = x.unsettled[:len(x.unsettled)-1]
		v.unsettled = false
		if wide := len(v.Nodes) > x.Most; wide != v.Wide {
			if v.Wide = wide; wide {
				x.Wide++
			} else {
				x.Wide--
			}
		}
		ranked := v.Active
		if v.Wide {
			ranked = 0
		}
		if ranked != v.Ranked {
			v.Ranked = ranked
			for _, n := range v.Nodes {
				x.Rerank(n)
			}
		}
	}
}

// Rerank moves a node, and the nodes above it, to their right places after the node's spans, children or value have
// changed. It removes an empty node.
func (x *DistinctIndex) Rerank(n *DistinctNode) {
	for n != nil {
		parent := n.Parent
		if n.Spans == 0 && n.Children.Root == nil {
			x.unplace(n)
			x.Remove(n)
			n = parent
			continue
		}
		rank, tied := x.rankOf(n)
		if n.Depth == 0 && n.Q.paused {
			x.unplace(n)
			return
		}
		if n.Placed && rank == n.Rank && tied == n.Tied {
			return
		}
		if n.Placed && rank != n.Rank {
			x.unplace(n)
		}
		n.Rank, n.Tied = rank, tied
		x.Place(n)
		n = parent
	}
}

// rankOf returns the rank of the best job below a node, and for Random how many leaves have this rank.
func (x *DistinctIndex) rankOf(n *DistinctNode) (rank DistinctRank, tied int64) {
	if n.Depth == len(x.Keys) {
		if rank.first = n.First; x.Base == job.Random {
			rank.first, tied = row.Waiting{Priority: rank.first.Priority}, 1
		}
	} else if rank = (*n.Children.min()).Rank; x.Base == job.Random {
		tied = n.Children.upTo(func(c **DistinctNode) bool { return compareTies(&(*c).Rank, &rank) > 0 })
	}
	if n.Value != nil {
		rank.counts[x.Levels[n.Depth-1]] = n.Value.Ranked
	}
	return rank, tied
}

// Place places a node among its siblings, or changes its weight there.
func (x *DistinctIndex) Place(n *DistinctNode) {
	n.Placed = true
	if n.Depth > 0 {
		n.Parent.Children.set(n, n.Tied)
		return
	}
	x.All.set(n, n.Tied)
	x.ByClient.set(n, n.Tied)
	x.ByType.set(n, n.Tied)
}

func (x *DistinctIndex) unplace(n *DistinctNode) {
	if !n.Placed {
		return
	}
	n.Placed = false
	if n.Depth > 0 {
		n.Parent.Children.Remove(&n)
		return
	}
	x.All.Remove(&n)
	x.ByClient.Remove(&n)
	x.ByType.Remove(&n)
}

// Remove forgets a node without spans.
func (x *DistinctIndex) Remove(n *DistinctNode) {
	if n.Depth == 0 {
		delete(x.Roots, n.Q.Id)
		x.Bytes -= distinctRootBytes
		return
	}
	delete(x.Nodes, n.NodeName)
	x.Bytes -= distinctNodeBytes
	if n.Depth == len(x.Keys) {
		x.Lined--
	}
	if v := n.Value; v != nil {
		last := v.Nodes[len(v.Nodes)-1]
		v.Nodes[n.At], last.At = last, n.At
		v.Nodes[len(v.Nodes)-1] = nil
		v.Nodes = v.Nodes[:len(v.Nodes)-1]
		if x.Unsettle(v); len(v.Nodes) == 0 {
			delete(x.Values[x.Levels[n.Depth-1]], v.ValueName)
			x.Bytes -= distinctValueBytes + len(v.Text)
		}
	}
}

// BestLevels returns an order of the levels that puts keys with fewer values above keys with more. It compares only the
// logarithms, to the base step, of their numbers of values. Keys with about as many values are in the order of the
// strategy.
func (x *DistinctIndex) BestLevels(step int) (levels []int) {
	logarithms := make([]int, len(x.Keys))
	for key := range x.Keys {
		for n := len(x.Values[key]); n >= step; n /= step {
			logarithms[key]++
		}
		levels = append(levels, key)
	}
	slices.SortStableFunc(levels, func(a, b int) int { return cmp.Compare(logarithms[a], logarithms[b]) })
	return levels
}

// rankAll ranks all nodes of an index that was just read.
func (x *DistinctIndex) rankAll() {
	levels := make([]map[*DistinctNode][]*DistinctNode, len(x.Keys)+1)
	for _, n := range x.Nodes {
		if levels[n.Depth] == nil {
			levels[n.Depth] = map[*DistinctNode][]*DistinctNode{}
		}
		levels[n.Depth][n.Parent] = append(levels[n.Depth][n.Parent], n)
	}
	for depth := len(x.Keys); depth > 0; depth-- {
		for parent, children := range levels[depth] {
			for _, n := range children {
				n.Rank, n.Tied = x.rankOf(n)
				n.Placed = true
			}
			parent.Children.sortAndFill(children, func(n **DistinctNode) int64 { return (*n).Tied })
		}
	}
	for _, root := range x.Roots {
		if root.Rank, root.Tied = x.rankOf(root); !root.Q.paused {
			x.Place(root)
		}
	}
}

// WaitingOf returns the fields of a pending span that order it.
func WaitingOf(sp *row.Span, b *row.Batch, g *row.Group) row.Waiting {
	id := sp.Lane(g)
	return row.Waiting{sp.OrderIn(b), b.Seq, id.Priority, sp.Last, id.Class}
}
