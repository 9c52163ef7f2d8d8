package memory

import "slices"

// WeightedTree is an ordered set of items with weights. Running totals are found and changed in logarithmic time. It is
// a treap (Seidel, Aragon: Randomized Search Trees, 1996) that keeps the sum of each subtree. Its shape does not affect
// any result.
type WeightedTree[T any] struct {
	order *weightedOrder[T]
	Root  *WeightedNode[T]
}

// weightedOrder is the order of the items of one or more trees.
type weightedOrder[T any] struct {
	compare func(a, b *T) int
	random  uint64
}

func newWeightedTree[T any](compare func(a, b *T) int) WeightedTree[T] {
	return WeightedTree[T]{order: &weightedOrder[T]{compare: compare}}
}

type WeightedNode[T any] struct {
	Item        T
	Weight, sum int64 // of the item; of the subtree
	Left, Right *WeightedNode[T]
	rank        uint64 // at least the ranks of both children
}

func (n *WeightedNode[T]) total() int64 {
	if n == nil {
		return 0
	}
	return n.sum
}

func (n *WeightedNode[T]) Add() *WeightedNode[T] {
	n.sum = n.Weight + n.Left.total() + n.Right.total()
	return n
}

// set adds an item, or changes its weight.
func (t *WeightedTree[T]) set(item T, weight int64) {
	if n := t.get(&item); n != nil {
		change := weight - n.Weight
		for at := t.Root; ; {
			at.sum += change
			switch order := t.order.compare(&item, &at.Item); {
			case order < 0:
				at = at.Left
			case order > 0:
				at = at.Right
			default:
				at.Weight = weight
				return
			}
		}
	}
	o := t.order
	o.random = o.random*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
	t.Root = t.Insert(t.Root, &WeightedNode[T]{Item: item, Weight: weight, sum: weight, rank: o.random ^ o.random>>33})
}

func (t *WeightedTree[T]) get(item *T) *WeightedNode[T] {
	for n := t.Root; n != nil; {
		switch order := t.order.compare(item, &n.Item); {
		case order < 0:
			n = n.Left
		case order > 0:
			n = n.Right
		default:
			return n
		}
	}
	return nil
}

func (t *WeightedTree[T]) Insert(n, x *WeightedNode[T]) *WeightedNode[T] {
	switch {
	case n == nil:
		return x
	case x.rank > n.rank:
		x.Left, x.Right = t.split(n, &x.Item)
		return x.Add()
	case t.order.compare(&x.Item, &n.Item) < 0:
		n.Left = t.Insert(n.Left, x)
	default:
		n.Right = t.Insert(n.Right, x)
	}
	return n.Add()
}

// split divides a subtree into the items before an item and the items after it.
func (t *WeightedTree[T]) split(n *WeightedNode[T], item *T) (before, after *WeightedNode[T]) {
	if n == nil {
		return nil, nil
	}
	if t.order.compare(&n.Item, item) < 0 {
		n.Right, after = t.split(n.Right, item)
		return n.Add(), after
	}
	before, n.Left = t.split(n.Left, item)
	return before, n.Add()
}

func (t *WeightedTree[T]) Remove(item *T) {
	if t.get(item) != nil {
		t.Root = t.Without(t.Root, item)
	}
}

func (t *WeightedTree[T]) Without(n *WeightedNode[T], item *T) *WeightedNode[T] {
	switch order := t.order.compare(item, &n.Item); {
	case order < 0:
		n.Left = t.Without(n.Left, item)
	case order > 0:
		n.Right = t.Without(n.Right, item)
	default:
		return join(n.Left, n.Right)
	}
	return n.Add()
}

// join joins two trees. All of a must precede all of b.
func join[T any](a, b *WeightedNode[T]) *WeightedNode[T] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.rank > b.rank:
		a.Right = join(a.Right, b)
		return a.Add()
	}
	b.Left = join(a, b.Left)
	return b.Add()
}

// upTo returns the weight of the items before the first one for which reached returns true. It must return true for all
// later items.
func (t *WeightedTree[T]) upTo(reached func(item *T) bool) (weight int64) {
	for n := t.Root; n != nil; {
		if reached(&n.Item) {
			n = n.Left
		} else {
			weight += n.Weight + n.Left.total()
			n = n.Right
		}
	}
	return weight
}

// firstWhere returns the first item for which reached returns true, or nil. It must return true for all later items.
func (t *WeightedTree[T]) firstWhere(reached func(item *T) bool) (found *T) {
	for n := t.Root; n != nil; {
		if reached(&n.Item) {
			found, n = &n.Item, n.Left
		} else {
			n = n.Right
		}
	}
	return found
}

// min returns the first item of a tree, which must not be empty.
func (t *WeightedTree[T]) min() *T {
	n := t.Root
	for n.Left != nil {
		n = n.Left
	}
	return &n.Item
}

// some calls visit with the first n items, in order, until it returns false.
func (t *WeightedTree[T]) some(n int, visit func(item T) bool) {
	t.someFrom(n, func(*T) bool { return true }, visit)
}

// someFrom is some, starting at the first item for which reached returns true. It must return true for all later items.
func (t *WeightedTree[T]) someFrom(n int, reached func(item *T) bool, visit func(item T) bool) {
	var walk func(at *WeightedNode[T]) bool
	walk = func(at *WeightedNode[T]) bool {
		switch {
		case at == nil:
			return true
		case !reached(&at.Item):
			return walk(at.Right)
		case !walk(at.Left) || n == 0:
			return false
		}
		n--
		return visit(at.Item) && walk(at.Right)
	}
	walk(t.Root)
}

// Find returns the item at which the running total exceeds a weight, and how far into the item that is.
func (t *WeightedTree[T]) Find(weight int64) (item *T, rest int64) {
	for n := t.Root; ; {
		if left := n.Left.total(); weight < left {
			n = n.Left
		} else if weight -= left; weight < n.Weight {
			return &n.Item, weight
		} else {
			weight -= n.Weight
			n = n.Right
		}
	}
}

// Fill builds a tree from nodes that are in order. Their items and weights are set.
func (t *WeightedTree[T]) Fill(nodes []WeightedNode[T]) { t.Root = balanced(nodes) }

// sortAndFill sorts items, and builds a tree from them.
func (t *WeightedTree[T]) sortAndFill(items []T, weight func(item *T) int64) {
	slices.SortFunc(items, func(a, b T) int { return t.order.compare(&a, &b) })
	nodes := make([]WeightedNode[T], len(items))
	for i := range items {
		nodes[i].Item, nodes[i].Weight = items[i], weight(&items[i])
	}
	t.Fill(nodes)
}

// balanced builds a tree from nodes that are in order. Each node gets the rank that the greatest of as many random
// ranks has on average, so that nodes that are added later find their place.
func balanced[T any](nodes []WeightedNode[T]) *WeightedNode[T] {
	n := len(nodes)
	if n == 0 {
		return nil
	}
	root := &nodes[n/2]
	root.rank = ^uint64(0) - ^uint64(0)/uint64(n+1)
	root.Left, root.Right = balanced(nodes[:n/2]), balanced(nodes[n/2+1:])
	return root.Add()
}
