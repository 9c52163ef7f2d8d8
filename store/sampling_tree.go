package store

// sampleTree is an ordered set of samples whose running totals are found and changed in logarithmic time: a treap
// (Seidel, Aragon: Randomized Search Trees, 1996) that keeps the sum of each subtree. Its shape decides nothing.
type sampleTree struct {
	compare func(a, b *sample) int
	root    *sampleNode
	random  uint64
}

type sampleNode struct {
	sample
	sum         int64 // of the subtree
	left, right *sampleNode
	rank        uint64 // at least that of both children
}

func (n *sampleNode) total() int64 {
	if n == nil {
		return 0
	}
	return n.sum
}

func (n *sampleNode) add() *sampleNode {
	n.sum = n.jobs + n.left.total() + n.right.total()
	return n
}

// set adds a sample, or gives it another number of jobs.
func (t *sampleTree) set(s sample) {
	change := s.jobs
	if n := t.get(&s); n != nil {
		change -= n.jobs
		for at := t.root; ; {
			at.sum += change
			switch order := t.compare(&s, &at.sample); {
			case order < 0:
				at = at.left
			case order > 0:
				at = at.right
			default:
				at.jobs = s.jobs
				return
			}
		}
	}
	t.random = t.random*6364136223846793005 + 1442695040888963407 // Knuth's MMIX generator
	t.root = t.insert(t.root, &sampleNode{sample: s, sum: s.jobs, rank: t.random ^ t.random>>33})
}

func (t *sampleTree) get(s *sample) *sampleNode {
	for n := t.root; n != nil; {
		switch order := t.compare(s, &n.sample); {
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

func (t *sampleTree) insert(n, x *sampleNode) *sampleNode {
	switch {
	case n == nil:
		return x
	case x.rank > n.rank:
		x.left, x.right = t.split(n, &x.sample)
		return x.add()
	case t.compare(&x.sample, &n.sample) < 0:
		n.left = t.insert(n.left, x)
	default:
		n.right = t.insert(n.right, x)
	}
	return n.add()
}

// split parts a subtree into what comes before s and what comes after it.
func (t *sampleTree) split(n *sampleNode, s *sample) (before, after *sampleNode) {
	if n == nil {
		return nil, nil
	}
	if t.compare(&n.sample, s) < 0 {
		n.right, after = t.split(n.right, s)
		return n.add(), after
	}
	before, n.left = t.split(n.left, s)
	return before, n.add()
}

func (t *sampleTree) remove(s *sample) {
	if t.get(s) != nil {
		t.root = t.without(t.root, s)
	}
}

func (t *sampleTree) without(n *sampleNode, s *sample) *sampleNode {
	switch order := t.compare(s, &n.sample); {
	case order < 0:
		n.left = t.without(n.left, s)
	case order > 0:
		n.right = t.without(n.right, s)
	default:
		return join(n.left, n.right)
	}
	return n.add()
}

// join makes one tree of two, of which all of a comes before all of b.
func join(a, b *sampleNode) *sampleNode {
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

// before returns how many jobs come before s.
func (t *sampleTree) before(s *sample) (jobs int64) {
	for n := t.root; n != nil; {
		if t.compare(&n.sample, s) < 0 {
			jobs += n.jobs + n.left.total()
			n = n.right
		} else {
			n = n.left
		}
	}
	return jobs
}

// first returns the first sample at or after s, or nil.
func (t *sampleTree) first(s *sample) (found *sample) {
	for n := t.root; n != nil; {
		if t.compare(&n.sample, s) < 0 {
			n = n.right
		} else {
			found, n = &n.sample, n.left
		}
	}
	return found
}

// find returns the queue at which the running total passes a number of jobs, and how far into it that is.
func (t *sampleTree) find(jobs int64) (q *queue, rest int64) {
	for n := t.root; ; {
		if left := n.left.total(); jobs < left {
			n = n.left
		} else if jobs -= left; jobs < n.jobs {
			return n.queue, jobs
		} else {
			jobs -= n.jobs
			n = n.right
		}
	}
}
