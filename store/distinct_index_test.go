package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookq/daybook/store/internal/memory"
	"github.com/daybookq/daybook/store/internal/row"
)

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
