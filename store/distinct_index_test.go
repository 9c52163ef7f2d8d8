package store

import (
	"fmt"
	"slices"
	"strings"
)

// checkDistinct compares each index of prefer_distinct that the store keeps with one that is built from its rows now.
func checkDistinct(s *Store) error {
	m := s.machine
	for _, kept := range m.distinct.list {
		built := m.buildDistinct(kept.strategy)
		kept.arrange(m.rules.distinctStep) // as a claim would
		built.arrange(m.rules.distinctStep)
		if a, b := kept.describe(), built.describe(); a != b {
			return fmt.Errorf("the index of %v is\n%sand built from the rows it is\n%s", kept.strategy, a, b)
		}
	}
	return nil
}

// describe lists everything in an index, in its order.
func (x *distinctIndex) describe() string {
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
		if !n.placed { // the root of a paused queue, whose rank is not kept
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
		eachWeighted(n.spans.root, func(w *weightedNode[waiting]) { fmt.Fprintf(&list, "    %+v %d jobs\n", w.item, w.weight) })
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
	slices.SortFunc(roots, func(a, b *distinctNode) int { return int(a.q.id) - int(b.q.id) })
	for _, root := range roots {
		below(root)
	}
	fmt.Fprintf(&list, "%d of %d nodes, %d of %d leaves\n", nodes, len(x.nodes), leaves, x.leaves)
	for key, values := range x.values {
		var texts []string
		for _, v := range values {
			texts = append(texts, fmt.Sprintf("%s:%q=%d in %d nodes", v.client, v.text, v.active, len(v.nodes)))
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
