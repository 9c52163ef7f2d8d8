package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
)

// spread hands out jobs by prefer_distinct. For each it counts the active jobs of all values, and ranks all jobs.
func (t *taking) spread() {
	m, keys, base := t.m, t.cmd.Strategy.DistinctKeys(), t.cmd.Strategy.Base()
	// If no index counts a key, the claim knows only the jobs that it hands out itself, while it looks at the same
	// spans.
	type value struct{ client, key, text string }
	uncounted, own, priority := m.uncounted(t.cmd.Strategy), map[value]int{}, -1
	for draw := uint64(0); ; draw++ {
		line := highest(m.Line(t.cmd.Clients, t.cmd.Types, false))
		if base == job.Newest {
			line = highest(newest(m.Line(t.cmd.Clients, t.cmd.Types, false)))
		}
		if len(line) == 0 {
			return
		}
		if line[0].Attr.Priority != priority {
			priority = line[0].Attr.Priority
			clear(own)
		}
		counts := map[*Job][]int{}
		var fewest []int
		for _, j := range line {
			for _, key := range keys {
				n := 0
				if text, _ := j.Attr.Meta.Get(key); slices.Contains(uncounted, key) {
					n = own[value{j.Attr.Client, key, text}]
				} else {
					n = m.activeOf(j, key)
				}
				counts[j] = append(counts[j], n)
			}
			if fewest == nil || slices.Compare(counts[j], fewest) < 0 {
				fewest = counts[j]
			}
		}
		line = slices.DeleteFunc(line, func(j *Job) bool { return !slices.Equal(counts[j], fewest) })
		next := line[0]
		switch base {
		case job.Random:
			leaves := m.leaves(t.cmd, line)
			next = leaves[job.RandomOf(m.seed, m.Seq, draw, math.MaxUint32)%uint64(len(leaves))]
		case job.Fair:
			turn := func(j *Job) string { // clients up to the one served last go to the end
				if j.Attr.Client <= m.served {
					return "1" + j.Attr.Client
				}
				return "0" + j.Attr.Client
			}
			next = slices.MinFunc(line, func(a, b *Job) int { return cmp.Compare(turn(a), turn(b)) }) // the first of them
		}
		had := len(t.c.Handed)
		more := t.take(next)
		for _, key := range uncounted {
			if text, ok := next.Attr.Meta.Get(key); ok && len(t.c.Handed) > had {
				own[value{next.Attr.Client, key, text}]++
			}
		}
		if base == job.Fair && len(t.c.Handed) > had {
			m.served = next.Attr.Client
		}
		if !more {
			return
		}
	}
}

// levels returns the keys of a strategy in the order of the levels of its index.
func (m *Model) levels(s job.Strategy) []string {
	if m.seen == nil {
		return s.DistinctKeys()
	}
	levels, _ := m.seen.Distinct(s)
	return levels
}

// uncounted returns the keys of a strategy whose active jobs no index counts.
func (m *Model) uncounted(s job.Strategy) []string {
	if m.seen == nil {
		return nil
	}
	_, uncounted := m.seen.Distinct(s)
	return uncounted
}

// activeOf returns how many active jobs of the client of a job have its value of a key.
func (m *Model) activeOf(j *Job, key string) (n int) {
	value, ok := j.Attr.Meta.Get(key)
	if !ok {
		return 0
	}
	for _, b := range m.Batches {
		for _, other := range b.Lines {
			if other.Status != job.Active || other.Attr.Client != j.Attr.Client {
				continue
			}
			if v, ok := other.Attr.Meta.Get(key); ok && v == value {
				n++
			}
		}
	}
	return n
}

// leaves returns the first job of each queue and combination of values, in the order in which a draw counts them: by
// queue, then by the values of the keys, missing values first. The levels of the index say which key is first.
func (m *Model) leaves(cmd *job.Claim, line []*Job) (leaves []*Job) {
	keys := m.levels(cmd.Strategy)
	compare := func(a, b *Job) int {
		for _, key := range keys {
			va, hasA := a.Attr.Meta.Get(key)
			vb, hasB := b.Attr.Meta.Get(key)
			if hasA != hasB {
				return map[bool]int{true: 1, false: -1}[hasA]
			}
			if c := cmp.Compare(va, vb); c != 0 {
				return c
			}
		}
		return 0
	}
	for _, q := range m.drawn(cmd.Clients, cmd.Types) {
		var of []*Job
		for _, j := range line {
			if j.Queue == q {
				of = append(of, j)
			}
		}
		slices.SortStableFunc(of, compare)
		leaves = append(leaves, slices.CompactFunc(of, func(a, b *Job) bool { return compare(a, b) == 0 })...)
	}
	return leaves
}
