package store

import "github.com/daybookq/daybook/job"

// applying is one command while it is applied. It lives from begin to end; only the memory of its lists is reused.
type applying struct {
	*machine
	now job.Now
	due int64 // of a tick: things due by then happen
	// Lists that end goes through.
	moved    []*queue      // queues whose heads may have changed
	resized  []*cell       // cells that may have too many spans, or too few
	settling []*claim      // claims that may hold no job any more, or that no line may name
	counted  []*submission // submissions whose counts have changed
	restRows int           // how many more rows the first steps over the jobs of submissions may write
	// besideRows is how many rows the command has looked at besides the spans that it moved: details, unique keys,
	// pages, and other spans of their pages.
	besideRows int
	// pointDeletes is how many more details may be deleted one by one.
	pointDeletes int
	effects      []effect
	own          *claim // of a completion: the claim of the jobs that it ended without a claim; nil: there are none
	chain        chain  // the jobs that a completion creates
}

// queueMoved makes end look at the head and the lanes of a queue.
func (a *applying) queueMoved(q *queue) {
	q.misplaced = true
	if !q.moved {
		q.moved = true
		a.moved = append(a.moved, q)
	}
}

// touchClaim records that the state of a claim has changed.
func (a *applying) touchClaim(c *claim) {
	if c.seq != a.now.Seq {
		c.changed = true
	}
	a.touch(&c.dirty, c)
}

// gained records that a queue has more jobs to hand out.
func (m *machine) gained(q *queue) {
	if !q.readied {
		q.readied = true
		m.readied = append(m.readied, q)
	}
}

// mix combines its arguments into a random number: splitmix64's finalizer over each part (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, 2014).
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
