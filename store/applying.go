package store

import "github.com/daybookq/daybook/job"

// applying is one command while it is applied. It lives from begin to end; only the memory of its lists is used again.
type applying struct {
	*machine
	now job.Now
	due int64 // of a tick: what is due by then happens
	// What end has to look at.
	moved    []*queue      // whose heads may have changed
	resized  []*cell       // that may have too many spans, or too few
	settling []*claim      // that may hold nothing any more, or be named by no line
	counted  []*submission // whose counts have changed
	restRows int           // how many rows the first steps over the jobs of submissions may still write
	// besideRows is how many rows the command has looked at for spans that it moved, beside them: details, unique keys, pages,
	// and other spans of their pages.
	besideRows int
	// pointDeletes is how many details may still be deleted one by one.
	pointDeletes int
	effects      []effect
	own          *claim // of a completion: the claim of the jobs that it ended and that no claim held; nil: there are none
	chain        chain  // the jobs that a completion creates
}

// queueMoved has end look at the head and the lanes of a queue.
func (a *applying) queueMoved(q *queue) {
	q.misplaced = true
	if !q.moved {
		q.moved = true
		a.moved = append(a.moved, q)
	}
}

// touchClaim notes that the state of a claim has changed.
func (a *applying) touchClaim(c *claim) {
	if c.seq != a.now.Seq {
		c.changed = true
	}
	a.touch(&c.dirty, c)
}

// gained notes that a queue has more to hand out.
func (m *machine) gained(q *queue) {
	if !q.readied {
		q.readied = true
		m.readied = append(m.readied, q)
	}
}

// mix scrambles what makes a jitter: splitmix64's finalizer over each part (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators, 2014).
func mix(seed, seq, batch uint64, line uint32) uint64 {
	x := seed
	for _, part := range [...]uint64{seq, batch, uint64(line)} {
		x += part + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
