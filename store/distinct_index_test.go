package store

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// checkDistinct compares each index of prefer_distinct in the store's memory with the index that a start would read.
// All commands must be committed.
func checkDistinct(s *Store) error {
	m := s.machine
	for _, kept := range m.distinct.list {
		read := readDistinct(&m.o, kept.distinctState, func(id uint32) *queue { return m.queues.byID[id] }, m.rules.distinctNodes)
		if a, b := describeIndex(kept), describeIndex(read); a != b {
			return fmt.Errorf("the index of %v is\n%sand read from its rows it is\n%s", kept.strategy, a, b)
		}
		if kept.stage == inLine && kept.lined > 0 && kept.bytes > m.rules.distinctBytes {
			return fmt.Errorf("the index of %v takes %d bytes", kept.strategy, kept.bytes)
		}
	}
	return nil
}

// describe lists all nodes of an index, in its order.
func describeIndex(x *distinctIndex) string {
	var list strings.Builder
	nodes, leaves := 0, 0
	var below func(n *distinctNode)
	below = func(n *distinctNode) {
		label := "without"
		if n.value != nil {
			label = fmt.Sprintf("%q", n.value.text)
			if n.value.nodes[n.at] != n {
				label += " which its value does not list"
			}
		}
		rank, tied := n.rank, n.tied
		if !n.placed { // the root of a paused queue, whose rank is not maintained
			rank, tied = distinctRank{}, 0
		}
		fmt.Fprintf(&list, "%s%s/%s %s rank=%v tied=%d placed=%v\n", strings.Repeat("  ", n.depth), n.q.client, n.q.typ, label, rank, tied, n.placed)
		eachWeighted(n.children.root, func(c *weightedNode[*distinctNode]) {
			nodes++
			if c.weight != c.item.tied || c.item.parent != n || x.nodes[c.item.nodeName] != c.item {
				fmt.Fprintln(&list, "misplaced:")
			}
			below(c.item)
		})
		if n.depth == len(x.keys) {
			leaves++
		}
		if n.spans > 0 {
			fmt.Fprintf(&list, "    leaf %d of %d spans, first %+v\n", n.id, n.spans, n.first)
		}
	}
	for _, tree := range []*weightedTree[*distinctNode]{&x.all, &x.byClient, &x.byType} {
		eachWeighted(tree.root, func(n *weightedNode[*distinctNode]) {
			fmt.Fprintf(&list, " %s/%s:%d", n.item.q.client, n.item.q.typ, n.weight)
		})
		fmt.Fprintln(&list)
	}
	roots := make([]*distinctNode, 0, len(x.roots))
	for _, root := range x.roots {
		roots = append(roots, root)
	}
	slices.SortFunc(roots, func(a, b *distinctNode) int { return cmp.Compare(a.q.id, b.q.id) })
	for _, root := range roots {
		below(root)
	}
	fmt.Fprintf(&list, "%d of %d nodes, %d of %d leaves, %d bytes, %d wide values\n", nodes, len(x.nodes), leaves, x.lined, x.bytes, x.wide)
	for key, values := range x.values {
		var texts []string
		for _, v := range values {
			texts = append(texts, fmt.Sprintf("%s:%q=%d, ranked as %d, in %d nodes, wide %v", v.client, v.text, v.active, v.ranked, len(v.nodes), v.wide))
		}
		slices.Sort(texts)
		fmt.Fprintln(&list, x.keys[key], texts)
	}
	return list.String()
}

// eachWeighted calls visit with the nodes of a tree, in order.
func eachWeighted[T any](n *weightedNode[T], visit func(n *weightedNode[T])) {
	if n != nil {
		eachWeighted(n.left, visit)
		visit(n)
		eachWeighted(n.right, visit)
	}
}
