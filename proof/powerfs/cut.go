//go:build !windows

package powerfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// cut makes the state that survives a power cut the present state. rng decides which unsynced data survives.
func (d *disk) cut(rng *rand.Rand) {
	d.cutNames(rng)
	seen := map[*node]bool{}
	d.nodes = map[uint64]*node{}
	d.used = 0
	d.survive(rng, d.root, seen)
	d.changes = nil
}

// cutNames decides which unsynced changes of names survive, in any directory: none, all, the first few (as on a
// journaling file system), or any. A change survives only if all earlier changes of its names survive.
func (d *disk) cutNames(rng *rand.Rand) {
	chance := 0.0
	first := len(d.changes)
	switch rng.IntN(5) {
	case 0:
	case 1:
		chance = 1
	case 2:
		chance = 1
		first = rng.IntN(len(d.changes) + 1)
	default:
		chance = 0.05 + 0.9*rng.Float64()
	}
	dropped := map[slot]bool{}
	for i, c := range d.changes {
		keep := i < first && (chance == 1 || rng.Float64() < chance)
		for k := range c.n {
			keep = keep && !dropped[c.slots[k]]
		}
		if keep {
			d.settle(c)
			continue
		}
		for k := range c.n {
			dropped[c.slots[k]] = true
		}
	}
}

// survive makes the durable names under n the present ones, and cuts every file. Nodes get new ids, so that no entry in
// the kernel's caches leads to them.
func (d *disk) survive(rng *rand.Rand, n *node, seen map[*node]bool) {
	if !seen[n] {
		seen[n] = true
		if n != d.root {
			d.lastID++
			n.id = d.lastID
		}
		d.nodes[n.id] = n
		n.links, n.durably, n.pending, n.open, n.subdirs = 0, 0, 0, 0, 0
		if !n.dir {
			d.cutFile(rng, n)
			d.used += blocks(int64(len(n.data)))
		}
	} else if n.dir {
		return
	}
	n.links++
	n.durably++
	if !n.dir {
		return
	}
	n.names = map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(n.durable)) { // in order, since the seed decides
		child := n.durable[name]
		if child.dir && seen[child] {
			delete(n.durable, name) // a directory has one name
			continue
		}
		n.names[name] = child
		d.survive(rng, child, seen)
		if child.dir {
			n.subdirs++
		}
	}
}

// cutFile decides the length and the sectors that survive.
func (d *disk) cutFile(rng *rand.Rand, n *node) {
	if len(n.dirty) == 0 && len(n.data) == len(n.synced) && len(n.sizes) == 0 {
		return
	}
	old, now := int64(len(n.synced)), int64(len(n.data))
	how := rng.IntN(5)
	size := d.cutSize(rng, n, old, now)
	if rng.IntN(2) == 0 { // in most cases length and data agree
		switch how {
		case 0:
			size = old
		case 1:
			size = now
		}
	}
	out := make([]byte, size)
	copy(out, n.synced)
	stale := rng.IntN(8) == 0
	if stale {
		for at := (old + sectorBytes - 1) / sectorBytes * sectorBytes; at < size; at += sectorBytes {
			copy(out[at:], d.garbage(rng))
		}
	}
	dirty := slices.Sorted(maps.Keys(n.dirty))
	chance := 0.05 + 0.9*rng.Float64()
	edge := rng.IntN(len(dirty) + 1)
	for i, at := range dirty {
		if at*sectorBytes >= size {
			break
		}
		keep := false
		switch how {
		case 0:
		case 1:
			keep = true
		case 2:
			keep = i < edge
		case 3:
			keep = i >= edge
		default:
			keep = rng.Float64() < chance
		}
		if !keep {
			continue
		}
		content := sectorAt(n.data, at)
		if v := n.dirty[at].versions; len(v) > 0 && how != 1 && rng.IntN(3) == 0 {
			content = v[rng.IntN(len(v))]
		}
		copy(out[at*sectorBytes:], content)
	}
	n.data, n.synced = out, slices.Clone(out)
	n.dirty, n.sizes = map[int64]*sector{}, n.sizes[:0]
}

// cutSize returns a random length: the durable length, the present length, an intermediate length of the file, or a
// length between the shortest and the longest of these, at the end of a sector or anywhere.
func (d *disk) cutSize(rng *rand.Rand, n *node, old, now int64) int64 {
	low, high := min(old, now), max(old, now)
	for _, s := range n.sizes {
		low, high = min(low, s), max(high, s)
	}
	switch rng.IntN(5) {
	case 0:
		return old
	case 1:
		return now
	case 2:
		if len(n.sizes) > 0 {
			return n.sizes[rng.IntN(len(n.sizes))]
		}
	case 3:
		if at := (low + rng.Int64N(high-low+1)) / sectorBytes * sectorBytes; at >= low {
			return at
		}
	}
	return low + rng.Int64N(high-low+1)
}

// garbage returns a sector of another file, or random bytes.
func (d *disk) garbage(rng *rand.Rand) []byte {
	if len(d.stale) > 0 && rng.IntN(4) > 0 {
		return d.stale[rng.IntN(len(d.stale))]
	}
	out := make([]byte, sectorBytes)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}
