package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/internal/memory"
)

// spread hands out jobs by prefer_distinct. For each it counts the active jobs of all values, and ranks all jobs.
func (t *modelTaking) spread() {
	m, keys, base := t.m, t.cmd.Strategy.DistinctKeys(), t.cmd.Strategy.Base()
	// If no index counts a key, the claim knows only the jobs that it hands out itself, while it looks at the same
	// spans.
	type value struct{ client, key, text string }
	uncounted, own, priority := m.distinctUncounted(t.cmd.Strategy), map[value]int{}, -1
	for draw := uint64(0); ; draw++ {
		line := highest(m.line(t.cmd.Clients, t.cmd.Types, false))
		if base == job.Newest {
			line = highest(newest(m.line(t.cmd.Clients, t.cmd.Types, false)))
		}
		if len(line) == 0 {
			return
		}
		if line[0].attr.Priority != priority {
			priority = line[0].attr.Priority
			clear(own)
		}
		counts := map[*modelJob][]int{}
		var fewest []int
		for _, j := range line {
			for _, key := range keys {
				n := 0
				if text, _ := j.attr.Meta.Get(key); slices.Contains(uncounted, key) {
					n = own[value{j.attr.Client, key, text}]
				} else {
					n = m.activeOf(j, key)
				}
				counts[j] = append(counts[j], n)
			}
			if fewest == nil || slices.Compare(counts[j], fewest) < 0 {
				fewest = counts[j]
			}
		}
		line = slices.DeleteFunc(line, func(j *modelJob) bool { return !slices.Equal(counts[j], fewest) })
		next := line[0]
		switch base {
		case job.Random:
			leaves := m.leaves(t.cmd, line)
			next = leaves[job.RandomOf(m.seed, m.seq, draw, math.MaxUint32)%uint64(len(leaves))]
		case job.Fair:
			turn := func(j *modelJob) string { // clients up to the one served last go to the end
				if j.attr.Client <= m.served {
					return "1" + j.attr.Client
				}
				return "0" + j.attr.Client
			}
			next = slices.MinFunc(line, func(a, b *modelJob) int { return cmp.Compare(turn(a), turn(b)) }) // the first of them
		}
		had := len(t.c.handed)
		more := t.Take(next)
		for _, key := range uncounted {
			if text, ok := next.attr.Meta.Get(key); ok && len(t.c.handed) > had {
				own[value{next.attr.Client, key, text}]++
			}
		}
		if base == job.Fair && len(t.c.handed) > had {
			m.served = next.attr.Client
		}
		if !more {
			return
		}
	}
}

// activeOf returns how many active jobs of the client of a job have its value of a key.
func (m *model) activeOf(j *modelJob, key string) (n int) {
	value, ok := j.attr.Meta.Get(key)
	if !ok {
		return 0
	}
	for _, b := range m.batches {
		for _, other := range b.lines {
			if other.status != job.Active || other.attr.Client != j.attr.Client {
				continue
			}
			if v, ok := other.attr.Meta.Get(key); ok && v == value {
				n++
			}
		}
	}
	return n
}

// leaves returns the first job of each queue and combination of values, in the order in which a draw counts them: by
// queue, then by the values of the keys, missing values first. The levels of the index say which key is first.
func (m *model) leaves(cmd *job.Claim, line []*modelJob) (leaves []*modelJob) {
	keys := m.distinctLevels(cmd.Strategy)
	compare := func(a, b *modelJob) int {
		for _, key := range keys {
			va, hasA := a.attr.Meta.Get(key)
			vb, hasB := b.attr.Meta.Get(key)
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
		var of []*modelJob
		for _, j := range line {
			if j.queue == q {
				of = append(of, j)
			}
		}
		slices.SortStableFunc(of, compare)
		leaves = append(leaves, slices.CompactFunc(of, func(a, b *modelJob) bool { return compare(a, b) == 0 })...)
	}
	return leaves
}

// levelsOf returns the keys of a strategy in the order of the levels of its index.
func levelsOf(s *Store, strategy job.Strategy) (keys []string) {
	for _, x := range s.machine.Distinct.List {
		if x.Strategy == strategy {
			for _, key := range x.Levels {
				keys = append(keys, x.Keys[key])
			}
			return keys
		}
	}
	return strategy.DistinctKeys()
}

// uncountedOf returns the keys of a strategy without an index whose active jobs no index counts.
func uncountedOf(s *Store, strategy job.Strategy) (keys []string) {
	list := s.machine.Distinct.List
	if slices.ContainsFunc(list, func(x *memory.DistinctIndex) bool { return x.Strategy == strategy }) {
		return nil
	}
	for _, key := range strategy.DistinctKeys() {
		if !slices.ContainsFunc(list, func(x *memory.DistinctIndex) bool { return slices.Contains(x.Keys, key) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

func mustDistinct(key string, underlying job.Strategy) job.Strategy {
	s, err := job.PreferDistinct(key, underlying)
	if err != nil {
		panic(err)
	}
	return s
}
