package store

import "slices"

// weightedTree is an ordered set of items with weights. Running totals are found and changed in logarithmic time. It is
// a treap (Seidel, Aragon: Randomized Search Trees, 1996) that keeps the sum of each subtree. Its shape does not affect
// any result.
type weightedTree[T any] struct {
	order *weightedOrder[T]
	root  *weightedNode[T]
}

// weightedOrder is the order of the items of one or more trees.
type weightedOrder[T any] struct {
	compare func(a, b *T) int
	random  uint64
}

func newWeightedTree[T any](compare func(a, b *T) int) weightedTree[T] {
	return weightedTree[T]{order: &weightedOrder[T]{compare: compare}}
}

type weightedNode[T any] struct {
	item        T
	weight, sum int64 // of the item; of the subtree
	left, right *weightedNode[T]
	rank        uint64 // at least the ranks of both children
}

func (n *weightedNode[T]) total() int64 {
	if n == nil {
		return 0
	}
	return n.sum
}

func (n *weightedNode[T]) add() *weightedNode[T] {
	n.sum = n.weight + n.left.total() + n.right.total()
	return n
}

// set adds an item, or changes its weight.
func (t *weightedTree[T]) set(item T, weight int64) {
	if n := t.get(&item); n != nil {
		change := weight - n.weight
		for at := t.root; ; {
			at.sum += change
			switch order := t.order.compare(&item, &at.item); {
			case order < 0:
				at = at.left
			case order > 0:
				at = at.right
			default:
				at.weight = weight
				return
			}
		}
	}
	o := t.order
	o.random = o.random*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
	t.root = t.insert(t.root, &weightedNode[T]{item: item, weight: weight, sum: weight, rank: o.random ^ o.random>>33})
}

func (t *weightedTree[T]) get(item *T) *weightedNode[T] {
	for n := t.root; n != nil; {
		switch order := t.order.compare(item, &n.item); {
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

func (t *weightedTree[T]) insert(n, x *weightedNode[T]) *weightedNode[T] {
	switch {
	case n == nil:
		return x
	case x.rank > n.rank:
		x.left, x.right = t.split(n, &x.item)
		return x.add()
	case t.order.compare(&x.item, &n.item) < 0:
		n.left = t.insert(n.left, x)
	default:
		n.right = t.insert(n.right, x)
	}
	return n.add()
}

// split divides a subtree into the items before an item and the items after it.
func (t *weightedTree[T]) split(n *weightedNode[T], item *T) (before, after *weightedNode[T]) {
	if n == nil {
		return nil, nil
	}
	if t.order.compare(&n.item, item) < 0 {
		n.right, after = t.split(n.right, item)
		return n.add(), after
	}
	before, n.left = t.split(n.left, item)
	return before, n.add()
}

func (t *weightedTree[T]) remove(item *T) {
	if t.get(item) != nil {
		t.root = t.without(t.root, item)
	}
}

func (t *weightedTree[T]) without(n *weightedNode[T], item *T) *weightedNode[T] {
	switch order := t.order.compare(item, &n.item); {
	case order < 0:
		n.left = t.without(n.left, item)
	case order > 0:
		n.right = t.without(n.right, item)
	default:
		return join(n.left, n.right)
	}
	return n.add()
}

// join joins two trees. All of a must precede all of b.
func join[T any](a, b *weightedNode[T]) *weightedNode[T] {
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

// upTo returns the weight of the items before the first one for which reached returns true. It must return true for all
// later items.
func (t *weightedTree[T]) upTo(reached func(item *T) bool) (weight int64) {
	for n := t.root; n != nil; {
		if reached(&n.item) {
			n = n.left
		} else {
			weight += n.weight + n.left.total()
			n = n.right
		}
	}
	return weight
}

// firstWhere returns the first item for which reached returns true, or nil. It must return true for all later items.
func (t *weightedTree[T]) firstWhere(reached func(item *T) bool) (found *T) {
	for n := t.root; n != nil; {
		if reached(&n.item) {
			found, n = &n.item, n.left
		} else {
			n = n.right
		}
	}
	return found
}

// min returns the first item of a tree, which must not be empty.
func (t *weightedTree[T]) min() *T {
	n := t.root
	for n.left != nil {
		n = n.left
	}
	return &n.item
}

// some calls visit with the first n items, in order, until it returns false.
func (t *weightedTree[T]) some(n int, visit func(item T) bool) {
	t.someFrom(n, func(*T) bool { return true }, visit)
}

// someFrom is some, starting at the first item for which reached returns true. It must return true for all later items.
func (t *weightedTree[T]) someFrom(n int, reached func(item *T) bool, visit func(item T) bool) {
	var walk func(at *weightedNode[T]) bool
	walk = func(at *weightedNode[T]) bool {
		switch {
		case at == nil:
			return true
		case !reached(&at.item):
			return walk(at.right)
		case !walk(at.left) || n == 0:
			return false
		}
		n--
		return visit(at.item) && walk(at.right)
	}
	walk(t.root)
}

// find returns the item at which the running total exceeds a weight, and how far into the item that is.
func (t *weightedTree[T]) find(weight int64) (item *T, rest int64) {
	for n := t.root; ; {
		if left := n.left.total(); weight < left {
			n = n.left
		} else if weight -= left; weight < n.weight {
			return &n.item, weight
		} else {
			weight -= n.weight
			n = n.right
		}
	}
}

// fill builds a tree from nodes that are in order. Their items and weights are set.
func (t *weightedTree[T]) fill(nodes []weightedNode[T]) { t.root = balanced(nodes) }

// sortAndFill sorts items, and builds a tree from them.
func (t *weightedTree[T]) sortAndFill(items []T, weight func(item *T) int64) {
	slices.SortFunc(items, func(a, b T) int { return t.order.compare(&a, &b) })
	nodes := make([]weightedNode[T], len(items))
	for i := range items {
		nodes[i].item, nodes[i].weight = items[i], weight(&items[i])
	}
	t.fill(nodes)
}

// balanced builds a tree from nodes that are in order. Each node gets the rank that the greatest of as many random
// ranks has on average, so that nodes that are added later find their place.
func balanced[T any](nodes []weightedNode[T]) *weightedNode[T] {
	n := len(nodes)
	if n == 0 {
		return nil
	}
	root := &nodes[n/2]
	root.rank = ^uint64(0) - ^uint64(0)/uint64(n+1)
	root.left, root.right = balanced(nodes[:n/2]), balanced(nodes[n/2+1:])
	return root.add()
}
