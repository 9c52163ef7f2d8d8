package memory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/daybookq/daybook/store/internal/row"
)

// queueTree holds all queues by name, and the standing of each subtree. It is a treap (Seidel, Aragon: Randomized
// Search Trees, 1996). So the queue whose turn it is, among all queues or the queues of a client or a type, is found and
// changed in a time that grows with the logarithm of the number of queues. A queue is its own node.
type queueTree struct {
	root   *Queue
	branch func(q *Queue) *branch
	// first and second are the parts of a name that order the queues.
	first, second func(n *row.QueueName) string
	name          func(first, second string) row.QueueName
}

func treeByClient() queueTree {
	return queueTree{
		branch: func(q *Queue) *branch { return &q.byClient },
		first:  func(n *row.QueueName) string { return n.Client }, second: func(n *row.QueueName) string { return n.Typ },
		name: func(first, second string) row.QueueName { return row.QueueName{first, second} },
	}
}

func treeByType() queueTree {
	return queueTree{
		branch: func(q *Queue) *branch { return &q.byType },
		first:  func(n *row.QueueName) string { return n.Typ }, second: func(n *row.QueueName) string { return n.Client },
		name: func(first, second string) row.QueueName { return row.QueueName{second, first} },
	}
}

func (t *queueTree) compare(a, b *row.QueueName) int {
	if order := strings.Compare(t.first(a), t.first(b)); order != 0 {
		return order
	}
	return strings.Compare(t.second(a), t.second(b))
}

// height decides which of two queues is above the other. It is splitmix64's finalizer, so no two heights are equal.
func height(q *Queue) uint64 {
	x := uint64(q.Id) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Count computes the standing of the subtree of q from its children, whose standings are right.
func (t *queueTree) Count(q *Queue) *Queue {
	b := t.branch(q)
	b.standing = q.Ready()
	if b.left != nil {
		b.Add(&t.branch(b.left).standing)
	}
	if b.right != nil {
		b.Add(&t.branch(b.right).standing)
	}
	return q
}

// Insert adds a queue.
func (t *queueTree) Insert(q *Queue) { t.root = t.insertBelow(t.root, q) }

func (t *queueTree) insertBelow(n, q *Queue) *Queue {
	if n == nil {
		*t.branch(q) = branch{}
		return t.Count(q)
	}
	if height(q) > height(n) {
		b := t.branch(q)
		b.left, b.right = t.split(n, &q.QueueName)
		return t.Count(q)
	}
	if b := t.branch(n); t.compare(&q.QueueName, &n.QueueName) < 0 {
		b.left = t.insertBelow(b.left, q)
	} else {
		b.right = t.insertBelow(b.right, q)
	}
	return t.Count(n)
}

// split divides a subtree into the queues before a name and the queues after it.
func (t *queueTree) split(n *Queue, name *row.QueueName) (before, after *Queue) {
	if n == nil {
		return nil, nil
	}
	b := t.branch(n)
	if t.compare(&n.QueueName, name) < 0 {
		b.right, after = t.split(b.right, name)
		return t.Count(n), after
	}
	before, b.left = t.split(b.left, name)
	return before, t.Count(n)
}

// Remove takes out a queue, which must be in the tree.
func (t *queueTree) Remove(q *Queue) { t.root = t.Without(t.root, q) }

func (t *queueTree) Without(n, q *Queue) *Queue {
	b := t.branch(n)
	if n == q {
		joined := t.join(b.left, b.right)
		*b = branch{}
		return joined
	}
	if t.compare(&q.QueueName, &n.QueueName) < 0 {
		b.left = t.Without(b.left, q)
	} else {
		b.right = t.Without(b.right, q)
	}
	return t.Count(n)
}

// join joins two trees. All of a must precede all of b.
func (t *queueTree) join(a, b *Queue) *Queue {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case height(a) > height(b):
		t.branch(a).right = t.join(t.branch(a).right, b)
		return t.Count(a)
	}
	t.branch(b).left = t.join(a, t.branch(b).left)
	return t.Count(b)
}

// Changed recomputes the standings that include a queue.
func (t *queueTree) Changed(q *Queue) { t.changedBelow(t.root, q) }

func (t *queueTree) changedBelow(n, q *Queue) {
	if n != q {
		if b := t.branch(n); t.compare(&q.QueueName, &n.QueueName) < 0 {
			t.changedBelow(b.left, q)
		} else {
			t.changedBelow(b.right, q)
		}
	}
	t.Count(n)
}

// Fill builds the tree from queues that are in its order.
func (t *queueTree) Fill(sorted []*Queue) {
	var spine []*Queue // from the root down to the right
	for _, q := range sorted {
		var below *Queue
		for n := len(spine); n > 0 && height(spine[n-1]) < height(q); n-- {
			below = t.Count(spine[n-1])
			spine = spine[:n-1]
		}
		t.branch(q).left = below
		if n := len(spine); n > 0 {
			t.branch(spine[n-1]).right = q
		}
		spine = append(spine, q)
	}
	for _, q := range slices.Backward(spine) {
		t.root = t.Count(q)
	}
}

// Ascend calls visit with the queues from a name onwards, in order, until it returns false.
func (t *queueTree) Ascend(from *row.QueueName, visit func(q *Queue) bool) {
	t.ascendBelow(t.root, from, visit)
}

func (t *queueTree) ascendBelow(n *Queue, from *row.QueueName, visit func(q *Queue) bool) bool {
	if n == nil {
		return true
	}
	b := t.branch(n)
	if t.compare(&n.QueueName, from) >= 0 && (!t.ascendBelow(b.left, from, visit) || !visit(n)) {
		return false
	}
	return t.ascendBelow(b.right, from, visit)
}

// After returns the first queue after a name that can hand out jobs of a priority or a higher one; nil if there is
// none.
func (t *queueTree) After(name *row.QueueName, priority int64) *Queue {
	return t.afterBelow(t.root, name, priority)
}

func (t *queueTree) afterBelow(n *Queue, name *row.QueueName, priority int64) *Queue {
	if n == nil || t.branch(n).Top() < priority {
		return nil
	}
	b := t.branch(n)
	if t.compare(&n.QueueName, name) > 0 {
		if q := t.afterBelow(b.left, name, priority); q != nil {
			return q
		}
		if own := n.Ready(); own.Top() >= priority {
			return n
		}
	}
	return t.afterBelow(b.right, name, priority)
}

// pieces calls visit with the pieces that make up the queues whose names begin with first, in order, until it returns
// false. A piece is a single queue with its standing, or a whole subtree with its standing.
func (t *queueTree) pieces(first string, visit func(n *Queue, whole bool, s standing) bool) {
	t.piecesBelow(t.root, first, false, false, visit)
}

// piecesBelow is pieces of a subtree. from says that no queue of the subtree is before the first matching one, and to
// that no queue of it is after the last matching one.
func (t *queueTree) piecesBelow(n *Queue, first string, from, to bool, visit func(n *Queue, whole bool, s standing) bool) bool {
	if n == nil {
		return true
	}
	b := t.branch(n)
	if from && to {
		return visit(n, true, b.standing)
	}
	switch order := cmp.Compare(t.first(&n.QueueName), first); {
	case order < 0:
		return t.piecesBelow(b.right, first, from, to, visit)
	case order > 0:
		return t.piecesBelow(b.left, first, from, to, visit)
	}
	if !t.piecesBelow(b.left, first, from, true, visit) {
		return false
	}
	return visit(n, false, n.Ready()) && t.piecesBelow(b.right, first, true, to, visit)
}

// Of returns the standing of the queues whose names begin with first.
func (t *queueTree) Of(first string) (s standing) {
	t.pieces(first, func(_ *Queue, _ bool, piece standing) bool { s.Add(&piece); return true })
	return s
}

// All returns the standing of all queues.
func (t *queueTree) All() standing {
	if t.root == nil {
		return standing{}
	}
	return t.branch(t.root).standing
}

// Draw returns the queue of one job, among the queues whose names begin with first. place is how many of their jobs of
// a priority precede the job, and rest how many of them are in the same queue. There must be such a job, and these
// queues must not have jobs of a higher priority.
func (t *queueTree) Draw(first string, priority, place int64) (found *Queue, rest int64) {
	t.pieces(first, func(n *Queue, whole bool, s standing) bool {
		if jobs := s.at(priority); place >= jobs {
			place -= jobs
			return true
		}
		if found = n; whole {
			found, place = t.drawBelow(n, priority, place)
		}
		return false
	})
	return found, place
}

// drawBelow is draw of a whole subtree.
func (t *queueTree) drawBelow(n *Queue, priority, place int64) (found *Queue, rest int64) {
	for {
		b := t.branch(n)
		if b.left != nil {
			jobs := t.branch(b.left).at(priority)
			if place < jobs {
				n = b.left
				continue
			}
			place -= jobs
		}
		own := n.Ready()
		if jobs := own.at(priority); place >= jobs {
			place -= jobs
			n = b.right
			continue
		}
		return n, place
	}
}
