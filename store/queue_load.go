package store

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// fill adds the queues of a start. Sorted once by name, type, head and tail, they are put into each order by numbers,
// which takes a tenth of the time that adding one queue after another does.
func (qs *queues) fill(all []*queue) {
	var ready []*queue
	for _, q := range all {
		qs.byID[q.id] = q
		qs.byName[q.queueName] = q
		if q.head == "" || q.paused {
			continue
		}
		tail, known := q.guessTail()
		q.rank, q.tailRank, q.tailKnown = readyRank(q.head), readyRank(tail), known
		ready = append(ready, q)
	}
	n := len(all)
	places := make(map[*queue]*startPlaces, n)
	backing := make([]startPlaces, n)
	for i, q := range all {
		places[q] = &backing[i]
	}
	// number sorts some queues, and gives each its number; equal ones share it.
	number := func(of []*queue, compare func(a, b *queue) int, set func(p *startPlaces, n uint64)) (sorted []*queue) {
		sorted = slices.Clone(of)
		slices.SortFunc(sorted, compare)
		at := uint64(0)
		for i, q := range sorted {
			if i > 0 && compare(sorted[i-1], q) != 0 {
				at++
			}
			set(places[q], at)
		}
		return sorted
	}
	var parts sync.WaitGroup
	var heads, tails []*queue
	parts.Go(func() {
		names := number(all, func(a, b *queue) int {
			return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.typ, b.typ))
		}, func(p *startPlaces, n uint64) { p.name = n })
		client := uint64(0)
		for i, q := range names {
			if i > 0 && names[i-1].client != q.client {
				client++
			}
			places[q].client = client
			qs.names.Load(q)
		}
		number(all, func(a, b *queue) int { return cmp.Compare(a.typ, b.typ) }, func(p *startPlaces, n uint64) { p.typ = n })
	})
	parts.Go(func() {
		heads = number(ready, func(a, b *queue) int { return strings.Compare(a.rank, b.rank) }, func(p *startPlaces, n uint64) { p.head = n })
		tails = number(ready, func(a, b *queue) int {
			if lessTail(a, b) {
				return -1
			} else if lessTail(b, a) {
				return 1
			}
			return 0
		}, func(p *startPlaces, n uint64) { p.tail = n })
	})
	parts.Wait()

	// sorted puts the ready queues in order of two of their numbers.
	sorted := func(by func(p *startPlaces) [2]uint64, add func(q *queue)) {
		list := make([]startKey, len(ready))
		for i, q := range ready {
			list[i] = startKey{by(places[q]), i}
		}
		slices.SortFunc(list, startKey.compare)
		for _, k := range list {
			add(ready[k.at])
		}
	}
	load := func(set *queueSet) func(q *queue) { return func(q *queue) { set.Load(q) } }
	parts.Go(func() {
		for _, q := range heads {
			qs.heads.all.Load(q)
		}
		sorted(func(p *startPlaces) [2]uint64 { return [2]uint64{p.client, p.head} }, load(qs.heads.byClient))
		sorted(func(p *startPlaces) [2]uint64 { return [2]uint64{p.typ, p.head} }, load(qs.heads.byType))
		for _, q := range tails {
			qs.tails.all.Load(q)
		}
		sorted(func(p *startPlaces) [2]uint64 { return [2]uint64{p.client, p.tail} }, load(qs.tails.byClient))
		sorted(func(p *startPlaces) [2]uint64 { return [2]uint64{p.typ, p.tail} }, load(qs.tails.byType))
	})
	parts.Go(func() { qs.samples.fill(ready, places) })
	parts.Wait()
}

// startPlaces are the numbers of a queue in several orders; client, typ and name count from the first, head and tail
// from the best.
type startPlaces struct{ name, client, typ, head, tail uint64 }

// startKey orders number at of a list.
type startKey struct {
	key [2]uint64
	at  int
}

func (a startKey) compare(b startKey) int {
	if a.key[0] != b.key[0] {
		return cmp.Compare(a.key[0], b.key[0])
	}
	return cmp.Compare(a.key[1], b.key[1])
}

// fill counts the pending jobs of ready queues.
func (x *samplingTrees) fill(ready []*queue, places map[*queue]*startPlaces) {
	var list []sample
	for _, q := range ready {
		q.samples = append(q.samples[:0], x.of(q)...)
		list = append(list, q.samples...)
	}
	keys := make([]startKey, len(list))
	fill := func(tree *weightedTree[sample], by func(s *sample, p *startPlaces) [2]uint64) {
		for i := range list {
			keys[i] = startKey{by(&list[i], places[list[i].queue]), i}
		}
		slices.SortFunc(keys, startKey.compare)
		nodes := make([]weightedNode[sample], len(list))
		for i, k := range keys {
			nodes[i].item, nodes[i].weight = list[k.at], list[k.at].jobs
		}
		tree.fill(nodes)
	}
	// There are fewer names than 2^32.
	fill(&x.all, func(s *sample, p *startPlaces) [2]uint64 { return [2]uint64{uint64(^s.priority), p.name} })
	fill(&x.byClient, func(s *sample, p *startPlaces) [2]uint64 {
		return [2]uint64{p.client<<32 | uint64(^s.priority), p.name}
	})
	fill(&x.byType, func(s *sample, p *startPlaces) [2]uint64 { return [2]uint64{p.typ<<32 | uint64(^s.priority), p.client} })
}
