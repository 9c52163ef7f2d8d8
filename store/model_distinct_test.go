package store

import (
	"cmp"
	"math"
	"slices"

	"github.com/daybookq/daybook/job"
)

// spread hands out jobs by prefer_distinct. For each it counts the active jobs of all values, and ranks all jobs.
func (t *modelTaking) spread() {
	m, keys, base := t.m, t.cmd.Strategy.DistinctKeys(), t.cmd.Strategy.Base()
	drawOrder := m.byNumberOfValues(keys)
	for draw := uint64(0); ; draw++ {
		line := highest(m.line(t.cmd.Clients, t.cmd.Types, false))
		if base == job.Newest {
			line = highest(newest(m.line(t.cmd.Clients, t.cmd.Types, false)))
		}
		if len(line) == 0 {
			return
		}
		counts := map[*modelJob][]int{}
		var fewest []int
		for _, j := range line {
			for _, key := range keys {
				counts[j] = append(counts[j], m.activeOf(j, key))
			}
			if fewest == nil || slices.Compare(counts[j], fewest) < 0 {
				fewest = counts[j]
			}
		}
		line = slices.DeleteFunc(line, func(j *modelJob) bool { return !slices.Equal(counts[j], fewest) })
		next := line[0]
		switch base {
		case job.Random:
			line = m.inDrawOrder(t.cmd, drawOrder, line)
			next = line[mix(m.seed, m.seq, draw, math.MaxUint32)%uint64(len(line))]
		case job.Fair:
			turn := func(j *modelJob) string { // clients up to the one that was served last come last
				if j.attr.Client <= m.served {
					return "1" + j.attr.Client
				}
				return "0" + j.attr.Client
			}
			next = slices.MinFunc(line, func(a, b *modelJob) int { return cmp.Compare(turn(a), turn(b)) }) // the first of them
		}
		had := len(t.c.handed)
		more := t.take(next)
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

// byNumberOfValues returns keys by the logarithm of how many values of pending or active jobs they have.
func (m *model) byNumberOfValues(keys []string) []string {
	logarithms := map[string]int{}
	for _, key := range keys {
		values := map[[2]string]bool{}
		for _, b := range m.batches {
			for _, j := range b.lines {
				if v, ok := j.attr.Meta.Get(key); ok && (j.status == job.Active || j.status == job.Pending) {
					values[[2]string{j.attr.Client, v}] = true
				}
			}
		}
		logarithms[key] = 0
		for n := len(values); n >= m.rules.distinctStep; n /= m.rules.distinctStep {
			logarithms[key]++
		}
	}
	return slices.SortedStableFunc(slices.Values(keys), func(a, b string) int { return cmp.Compare(logarithms[a], logarithms[b]) })
}

// inDrawOrder returns jobs in the order in which a draw counts them: by queue, then by the values of the keys, of which
// none comes first, then as they are.
func (m *model) inDrawOrder(cmd *job.Claim, keys []string, line []*modelJob) (ordered []*modelJob) {
	for _, q := range m.drawn(cmd.Clients, cmd.Types) {
		var of []*modelJob
		for _, j := range line {
			if j.queue == q {
				of = append(of, j)
			}
		}
		slices.SortStableFunc(of, func(a, b *modelJob) int {
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
		})
		ordered = append(ordered, of...)
	}
	return ordered
}

func mustDistinct(key string, underlying job.Strategy) job.Strategy {
	s, err := job.PreferDistinct(key, underlying)
	if err != nil {
		panic(err)
	}
	return s
}
