package store

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/daybookq/daybook/internal/testkit"
	"github.com/daybookq/daybook/job"
	"github.com/daybookq/daybook/store/applied"
	"github.com/daybookq/daybook/store/internal/lsm"
	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

// fillValues makes n waiting jobs, each with a different value of "user", in batches of a thousand groups.
func fillValues(f *feeder, n int) {
	for i := 0; i < n; i += 1000 {
		c := &job.Create{Frame: job.NoFrame}
		for k := range min(1000, n-i) {
			g := plainGroup("a", "x", 1)
			g.Kind, g.Meta = job.Nothing, job.Meta(fmt.Sprintf("region=r%d,user=u%d", k%7, i+k))
			c.Groups = append(c.Groups, g)
		}
		f.Apply(c)
		mustCommit(f.t, f.s)
	}
}

// fillValuesOfQueues is fillValues with a separate queue for each job.
func fillValuesOfQueues(f *feeder, n int) {
	for i := range n {
		c := plainCreate("a", fmt.Sprintf("type%d", i), 1, 3)
		c.Groups[0].Meta = job.Meta(fmt.Sprintf("user=u%d", i))
		if f.Apply(c); i%1000 == 0 {
			mustCommit(f.t, f.s)
		}
	}
}

func distinctClaim(max int, strategy job.Strategy) job.Claim {
	c := plainClaim("r", max)
	c.Strategy = strategy
	return c
}

// metaOf returns the meta of the first job of a run.
func metaOf(s *Store, r row.Run) job.Meta {
	return s.machine.Group(s.machine.Batch(r.Batch), r.First).Meta
}

// building reports whether ticks have yet to finish an index.
func building(s *Store) bool {
	return slices.ContainsFunc(s.machine.Distinct.List, func(x *memory.DistinctIndex) bool { return x.StepAt != 0 })
}

// TestPreferDistinctIsBounded: the costs of a claim by prefer_distinct, first or later, and of a tick that builds an
// index, do not grow with the number of waiting jobs, values or queues, or with the names of a claim.
func TestPreferDistinctIsBounded(t *testing.T) {
	user := mustDistinct("user", job.Oldest)
	names := func(prefix string) (list []string) {
		for i := range job.MaxClaimNames {
			list = append(list, fmt.Sprintf("%s%d", prefix, i))
		}
		return list
	}
	pairs := distinctClaim(1000, user)
	pairs.Clients, pairs.Types = names("client"), names("type")
	types := distinctClaim(100, mustDistinct("user", job.Fair))
	types.Types = names("type")
	values := &backlog{name: "values", n: 15_000, fill: fillValues}
	valuesOfQueues := &backlog{name: "values of queues", n: 5000, fill: fillValuesOfQueues}
	queues := &backlog{name: "queues", n: 10_000, fill: fillPairs(nil)}
	table := []bounded{
		{"oldest", values, distinctClaim(100, user), 100},
		{"newest", values, distinctClaim(100, mustDistinct("user", job.Newest)), 100},
		{"random, of two keys", values, distinctClaim(100, mustDistinct("region", mustDistinct("user", job.Random))), 100},
		{"oldest", valuesOfQueues, distinctClaim(100, user), 50},
		{"a key that no job has", queues, distinctClaim(100, user), 50},
		{"all pairs of many names", queues, pairs, 50},
		{"many types, in turn", queues, types, 50},
	}
	testBounded(t, table)
	for _, c := range table {
		t.Run("built/"+c.backlog.name+"/"+c.name, func(t *testing.T) {
			f := c.Open(t)
			f.Apply(c.do)
			for ticks := 0; building(f.s); ticks++ {
				got := f.s.costOf(t, func() { f.Apply(job.Tick{}) })
				testkit.MustHold(t, got.looks <= boundedRows && got.writes <= boundedWrites && got.bytes <= boundedBytes, "a tick", got)
				mustCommit(t, f.s)
				testkit.MustHold(t, ticks <= 20*c.n/100, "not built after", ticks, "ticks")
			}
			for range 2 {
				var result applied.Result
				got := f.s.costOf(t, func() { result = f.Apply(c.do) })
				testkit.Holds(t, got.looks <= boundedRows && got.writes <= boundedWrites && got.bytes <= boundedBytes, got)
				jobs := result.(*applied.Claimed).Jobs()
				testkit.Holds(t, jobs >= c.jobs, "a claim got", jobs, "jobs, want", c.jobs, "at least")
			}
			mustCommit(t, f.s)
			testkit.Check(t, checkDistinct(f.s))
			sound(t, f.s)
		})
	}
}

// TestDistinctFindsWhatIsFarBehind: a built index hands out the only job of a user although thousands of jobs of a
// different user precede it, and likewise for regions.
func TestDistinctFindsWhatIsFarBehind(t *testing.T) {
	for _, strategy := range []job.Strategy{mustDistinct("user", job.Oldest), mustDistinct("region", mustDistinct("user", job.Random)), mustDistinct("user", mustDistinct("region", job.Fair))} {
		f := inStore(t, Options{}, func(f *feeder) {
			for i := range 3000 {
				c := plainCreate("a", "x", 1, 3)
				if c.Groups[0].Meta = "region=r,user=big"; i == 2999 {
					c.Groups[0].Meta = "region=s,user=small"
				}
				f.Apply(c)
			}
		})
		for f.Apply(distinctClaim(1, strategy)); building(f.s); f.Apply(job.Tick{}) {
		}
		last := f.seq
		got := f.Apply(distinctClaim(1, strategy)).(*applied.Claimed)
		testkit.MustEqual(t, got.Jobs(), 1, strategy, "the second claim got", got.Runs, "after command", last)
		testkit.Equal(t, metaOf(f.s, got.Runs[0]), "region=s,user=small", strategy, "the second claim got", got.Runs, "after command", last)
		mustCommit(t, f.s)
	}
}

// TestDistinctTakesNoMemoryForEachJob: beyond DistinctBytes an index drops its line with all of its rows. Claims still
// spread over the jobs that they see, and count exactly. Ten minutes later a claim tries to build the index again.
func TestDistinctTakesNoMemoryForEachJob(t *testing.T) {
	r := row.FirstRules
	r.DistinctBytes = 300_000
	b := memory.StandardBounds
	b.Rules = &r
	f := inStore(t, Options{bounds: &b}, func(f *feeder) { fillValues(f, 3000) })
	user := mustDistinct("user", job.Oldest)
	f.Apply(distinctClaim(1, user))
	x := f.s.machine.Distinct.List[0]
	for building(f.s) {
		f.Apply(job.Tick{})
		testkit.MustHold(t, x.Bytes <= r.DistinctBytes, x.Bytes, "bytes")
	}
	mustCommit(t, f.s)
	rows := func() (kinds map[byte]int) {
		kinds = map[byte]int{}
		for _, entry := range dump(f.s) {
			if entry.key[0] == row.DistinctTable && len(entry.key) > 2 {
				kinds[entry.key[2]]++
			}
		}
		return kinds
	}
	if kinds := rows(); x.Stage != row.Overfull || x.Bytes != 0 || kinds[row.DistinctLeafRow]+kinds[row.DistinctSpanRow] != 0 || kinds[row.DistinctCountRow] != 1 {
		t.Errorf("in stage %d: %d bytes, rows %v", x.Stage, x.Bytes, kinds)
	}
	// More jobs of the user with an active job are first in line.
	high := plainCreate("a", "x", 3, 3)
	high.Groups[0].Meta, high.Groups[0].Priority = "region=r0,user=u0", 9
	f.Apply(high)
	other := plainCreate("a", "x", 1, 3)
	other.Groups[0].Meta, other.Groups[0].Priority = "user=other", 9
	f.Apply(other)
	testkit.Equal(t, f.Apply(distinctClaim(1, user)).(*applied.Claimed).Runs[0].Batch, f.seq-1, "of a busy user and an idle one the claim")
	f.Apply(job.Move{Op: job.Cancel, Client: "a", Type: "x"})
	for at := f.seq; f.s.machine.Counts[job.Pending] > 0; f.Apply(job.Tick{}) {
		testkit.MustHold(t, f.seq <= at+1000, "the queue is not empty")
	}
	f.Apply(plainCreate("a", "x", 1, 3))
	f.seq++
	mustApply(t, f.s, f.seq, memory.DistinctAgainMs+int64(f.seq), distinctClaim(1, user))
	testkit.Equal(t, x.Stage, row.InLine, "ten minutes later the index is in stage")
	mustCommit(t, f.s)
	sound(t, f.s)
}

// TestDistinctBytes: an index takes about as much memory as its bytes say.
func TestDistinctBytes(t *testing.T) {
	for _, fill := range []func(f *feeder, n int){fillValues, fillValuesOfQueues} {
		f := inStore(t, Options{}, func(f *feeder) { fill(f, 5000) })
		for f.Apply(distinctClaim(1, mustDistinct("user", job.Oldest))); building(f.s); f.Apply(job.Tick{}) {
		}
		mustCommit(t, f.s)
		x := f.s.machine.Distinct.List[0]
		before := heapBytes()
		again := memory.ReadDistinct(&f.s.machine.O, x.DistinctState, func(id uint32) *memory.Queue { return f.s.machine.AllQueues.ByID[id] }, x.Most)
		took := int(heapBytes() - before)
		testkit.Holds(t, again.Bytes == x.Bytes && took <= x.Bytes*5/4 && took >= x.Bytes/2,
			"an index of", x.Lined, "leaves takes", took, "bytes, counted as", x.Bytes, "and", again.Bytes, "after a start")
		runtime.KeepAlive(again)
	}
}

// TestDistinctStart: a start reads one row for each combination of values, and no rows of its spans.
func TestDistinctStart(t *testing.T) {
	reads := func(jobs int) lsm.Work {
		f := inStore(t, Options{}, func(f *feeder) {
			for range jobs {
				c := plainCreate("a", "x", 1, 3)
				c.Groups[0].Meta = "user=u"
				f.Apply(c)
			}
			for f.Apply(distinctClaim(1, mustDistinct("user", job.Oldest))); building(f.s); f.Apply(job.Tick{}) {
			}
		})
		work := f.s.machine.O.Work()
		if work.Steps > 100 { // they depend on what Pebble has compacted
			t.Errorf("a start takes %d steps inside Pebble with %d jobs of a user", work.Steps, jobs)
		}
		work.Steps = 0
		return work
	}
	few, many := reads(10), reads(2000)
	testkit.Equal(t, many, few, "a start")
}

// TestDistinctWideValue: the active jobs of a user with jobs in very many queues count, although none of the user's
// many nodes moves.
func TestDistinctWideValue(t *testing.T) {
	f := inStore(t, Options{}, func(f *feeder) {
		for i := range 200 {
			c := plainCreate("a", fmt.Sprintf("type%d", i), 1, 3)
			if c.Groups[0].Meta = "user=wide"; i == 199 {
				c.Groups[0].Meta = "user=other"
			}
			f.Apply(c)
		}
	})
	user := mustDistinct("user", job.Oldest)
	for f.Apply(distinctClaim(1, user)); building(f.s); f.Apply(job.Tick{}) {
	}
	testkit.Equal(t, f.s.machine.Distinct.List[0].Wide, 1)
	claim := distinctClaim(1, user)
	claim.Types = []string{"type5", "type199"}
	testkit.Equal(t, metaOf(f.s, f.Apply(claim).(*applied.Claimed).Runs[0]), "user=other", "the claim")
	mustCommit(t, f.s)
}

// TestDistinctStrategiesInTurn: of seventeen strategies in turn the first eight keep their indexes. The remaining
// strategies have no rows, and write no more than any claim, until one of the eight has been unused for a minute.
func TestDistinctStrategiesInTurn(t *testing.T) {
	f := inStore(t, Options{}, func(f *feeder) { fillValues(f, 3000) })
	claim := func(i int) cost {
		return f.s.costOf(t, func() { f.Apply(distinctClaim(1, mustDistinct(fmt.Sprintf("k%d", i), job.Oldest))) })
	}
	strategies := func() (of []string) {
		for _, x := range f.s.machine.Distinct.List {
			of = append(of, x.Keys[0])
		}
		slices.Sort(of)
		return of
	}
	first := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
	for i := range memory.MaxDistinctIndexes {
		claim(i)
	}
	for building(f.s) {
		f.Apply(job.Tick{})
		mustCommit(t, f.s)
	}
	plain := f.s.costOf(t, func() { f.Apply(plainClaim("r", 1)) })
	for round := range 3 {
		for i := range 17 {
			got := claim(i)
			testkit.Holds(t, got.writes <= plain.writes+10 && got.looks <= 10*f.s.machine.Rules.DistinctLooks,
				"strategy", i, "in round", round, got, "where a claim by oldest takes", plain)
			mustCommit(t, f.s)
		}
		f.seq += 50_000
	}
	testkit.EqualSlices(t, strategies(), first, "there are indexes")
	for range 2 { // in which the first strategy is not used
		f.seq += 70_000
		for i := 1; i < memory.MaxDistinctIndexes; i++ {
			claim(i)
		}
	}
	claim(16)
	claim(0)
	testkit.EqualSlices(t, strategies(), append([]string{"k1", "k16"}, first[2:]...), "after a while without k0 there are indexes")
	mustCommit(t, f.s)
	numbers := map[byte]bool{}
	for _, entry := range dump(f.s) {
		if entry.key[0] == row.DistinctTable {
			numbers[entry.key[1]] = true
		}
	}
	testkit.Equal(t, len(numbers), memory.MaxDistinctIndexes)
	sound(t, f.s)
}

// TestDistinctWithoutIndex: a strategy without an index uses the counts of active jobs in the indexes of other
// strategies.
func TestDistinctWithoutIndex(t *testing.T) {
	f := inStore(t, Options{}, func(f *feeder) {
		for _, user := range []job.Meta{"user=a", "user=a", "user=b"} {
			c := plainCreate("a", "x", 1, 3)
			c.Groups[0].Meta = user
			f.Apply(c)
		}
	})
	for i := range memory.MaxDistinctIndexes - 1 {
		claim := distinctClaim(1, mustDistinct(fmt.Sprintf("k%d", i), job.Oldest))
		claim.Types = []string{"none"}
		f.Apply(claim)
	}
	for f.Apply(distinctClaim(1, mustDistinct("user", job.Oldest))); building(f.s); f.Apply(job.Tick{}) {
	}
	got := f.Apply(distinctClaim(1, mustDistinct("user", job.Newest))).(*applied.Claimed)
	testkit.Equal(t, metaOf(f.s, got.Runs[0]), "user=b", "the claim got a job")
	n := len(f.s.machine.Distinct.List)
	testkit.Holds(t, n == memory.MaxDistinctIndexes && f.s.machine.Distinct.List[n-1].Base == job.Oldest, "there are", n, "indexes")
	mustCommit(t, f.s)
}

// TestDistinctIsGoneWhenIdle: an hour after its last claim the rows and the timer of an index are deleted.
func TestDistinctIsGoneWhenIdle(t *testing.T) {
	s := mustOpen(t, Options{})
	c := plainCreate("a", "x", 4, 3)
	c.Groups[0].Meta = "user=u"
	mustApply(t, s, 1, 0, c)
	mustStore(t, s, 2, 1, distinctClaim(1, mustDistinct("user", job.Oldest)))
	of := func() (n int) {
		for _, entry := range dump(s) {
			if entry.key[0] == row.DistinctTable {
				n++
			}
		}
		return n
	}
	testkit.Equal(t, of(), 4, "an index of a span and an active job")
	mustStore(t, s, 3, memory.DistinctIdleMs+1, job.Mark{})
	testkit.Equal(t, of(), 0, "after an hour there")
}

// checkDistinct compares each index of prefer_distinct in the store's memory with the index that a start would read.
// All commands must be committed.
func checkDistinct(s *Store) error {
	m := s.machine
	for _, kept := range m.Distinct.List {
		read := memory.ReadDistinct(&m.O, kept.DistinctState, func(id uint32) *memory.Queue { return m.AllQueues.ByID[id] }, m.Rules.DistinctNodes)
		if a, b := describeIndex(kept), describeIndex(read); a != b {
			return fmt.Errorf("the index of %v is\n%sand read from its rows it is\n%s", kept.Strategy, a, b)
		}
		if kept.Stage == row.InLine && kept.Lined > 0 && kept.Bytes > m.Rules.DistinctBytes {
			return fmt.Errorf("the index of %v takes %d bytes", kept.Strategy, kept.Bytes)
		}
	}
	return nil
}

// describe lists all nodes of an index, in its order.
func describeIndex(x *memory.DistinctIndex) string {
	var list strings.Builder
	nodes, leaves := 0, 0
	var below func(n *memory.DistinctNode)
	below = func(n *memory.DistinctNode) {
		label := "without"
		if n.Value != nil {
			label = fmt.Sprintf("%q", n.Value.Text)
			if n.Value.Nodes[n.At] != n {
				label += " which its value does not list"
			}
		}
		rank, tied := n.Rank, n.Tied
		if !n.Placed { // the root of a paused queue, whose rank is not maintained
			rank, tied = memory.DistinctRank{}, 0
		}
		fmt.Fprintf(&list, "%s%s/%s %s rank=%v tied=%d placed=%v\n", strings.Repeat("  ", n.Depth), n.Q.Client, n.Q.Typ, label, rank, tied, n.Placed)
		eachWeighted(n.Children.Root, func(c *memory.WeightedNode[*memory.DistinctNode]) {
			nodes++
			if c.Weight != c.Item.Tied || c.Item.Parent != n || x.Nodes[c.Item.NodeName] != c.Item {
				fmt.Fprintln(&list, "misplaced:")
			}
			below(c.Item)
		})
		if n.Depth == len(x.Keys) {
			leaves++
		}
		if n.Spans > 0 {
			fmt.Fprintf(&list, "    leaf %d of %d spans, first %+v\n", n.Id, n.Spans, n.First)
		}
	}
	for _, tree := range []*memory.WeightedTree[*memory.DistinctNode]{&x.All, &x.ByClient, &x.ByType} {
		eachWeighted(tree.Root, func(n *memory.WeightedNode[*memory.DistinctNode]) {
			fmt.Fprintf(&list, " %s/%s:%d", n.Item.Q.Client, n.Item.Q.Typ, n.Weight)
		})
		fmt.Fprintln(&list)
	}
	roots := make([]*memory.DistinctNode, 0, len(x.Roots))
	for _, root := range x.Roots {
		roots = append(roots, root)
	}
	slices.SortFunc(roots, func(a, b *memory.DistinctNode) int { return cmp.Compare(a.Q.Id, b.Q.Id) })
	for _, root := range roots {
		below(root)
	}
	fmt.Fprintf(&list, "%d of %d nodes, %d of %d leaves, %d bytes, %d wide values\n", nodes, len(x.Nodes), leaves, x.Lined, x.Bytes, x.Wide)
	for key, values := range x.Values {
		var texts []string
		for _, v := range values {
			texts = append(texts, fmt.Sprintf("%s:%q=%d, ranked as %d, in %d nodes, wide %v", v.Client, v.Text, v.Active, v.Ranked, len(v.Nodes), v.Wide))
		}
		slices.Sort(texts)
		fmt.Fprintln(&list, x.Keys[key], texts)
	}
	return list.String()
}

// eachWeighted calls visit with the nodes of a tree, in order.
func eachWeighted[T any](n *memory.WeightedNode[T], visit func(n *memory.WeightedNode[T])) {
	if n != nil {
		eachWeighted(n.Left, visit)
		visit(n)
		eachWeighted(n.Right, visit)
	}
}
