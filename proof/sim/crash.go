package sim

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ending says how a server's life ends.
type ending int

const (
	stopped   ending = iota // cleanly
	killed                  // the process ends; everything that it wrote is kept, durable or not
	powerLost               // the machine stops; data that was not durable may be lost
)

func (e ending) String() string { return [...]string{"stopped", "killed", "power lost"}[e] }

// afterKill copies to root all files that the next process finds, and returns its disk. Data that was not durable is
// still not durable.
func (d *disk) afterKill(root string, random *rand.Rand) (*disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := d.scan(d.root)
	if err != nil {
		return nil, err
	}
	if err := now.write(root); err != nil {
		return nil, err
	}
	next, err := newDisk(root, random, d.lie)
	if err != nil {
		return nil, err
	}
	// newDisk took everything as durable. Restore the data that really was durable, under the new inodes.
	moved := map[inode]inode{}
	if err := next.mapInodes(now, root, moved); err != nil {
		return nil, err
	}
	rename := func(n inode) inode {
		if to, ok := moved[n]; ok {
			return to
		}
		return n | durableOnly
	}
	clear(next.files)
	clear(next.names)
	for n, data := range d.files {
		next.files[rename(n)] = data
	}
	for n, sectors := range d.failedWrites {
		next.failedWrites[rename(n)] = sectors
	}
	for n, names := range d.names {
		to := map[string]inode{}
		for name, child := range names {
			to[name] = rename(child)
		}
		next.names[rename(n)] = to
	}
	return next, nil
}

// mapInodes records in moved which inode each node of t has at path.
func (d *disk) mapInodes(t *tree, path string, moved map[inode]inode) error {
	node, _, err := d.stat(path)
	if err != nil {
		return err
	}
	moved[t.node] = node
	for name, child := range t.names {
		if err := d.mapInodes(child, filepath.Join(path, name), moved); err != nil {
			return err
		}
	}
	return nil
}

// afterPowerLoss writes to root the data that survives, and returns its disk, on which everything is durable. Data that
// was not durable is lost, kept or torn: each file and directory has its old place or its new one (if it was created or
// removed, it exists or does not), and each sector of a file has its old bytes or its new ones.
func (d *disk) afterPowerLoss(root string, random *rand.Rand) (*disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := d.scan(d.root)
	if err != nil {
		return nil, err
	}
	c := powerLoss{d: d, random: random, percent: []int{0, 100, random.IntN(101), random.IntN(101)}[random.IntN(4)]}
	if err := c.survivors(now).write(root); err != nil {
		return nil, err
	}
	return newDisk(root, random, d.lie)
}

// powerLoss makes the decisions of one power loss.
type powerLoss struct {
	d       *disk
	random  *rand.Rand
	percent int // this share of the changes that were not durable survives
}

func (c *powerLoss) survives() bool { return c.random.IntN(100) < c.percent }

// place is where a file or directory is; the zero place means that it does not exist.
type place struct {
	dir  inode
	name string
}

// survivors returns the tree that survives, from the tree that processes see now.
func (c *powerLoss) survivors(now *tree) *tree {
	current, durable := map[inode]place{}, map[inode]place{}
	trees := map[inode]*tree{}
	// It decides in the order of these paths, which is the same in each run. Inodes differ between runs.
	paths := map[inode]string{}
	now.walk(place{}, "", func(t *tree, at place, path string) {
		current[t.node], trees[t.node], paths[t.node] = at, t, path
	})
	var old func(dir inode, path string)
	old = func(dir inode, path string) {
		for name, child := range c.d.names[dir] {
			if _, seen := durable[child]; seen {
				continue
			}
			durable[child] = place{dir, name}
			paths[child] += " was " + path + "/" + name
			old(child, path+"/"+name)
		}
	}
	old(now.node, "")
	// Trees whose own name is not durable yet:
	now.walk(place{}, "", func(t *tree, _ place, path string) { old(t.node, path) })
	delete(paths, now.node)
	type entry struct {
		node inode
		new  bool
	}
	in := map[place]entry{}
	for _, n := range slices.SortedFunc(maps.Keys(paths), func(a, b inode) int { return strings.Compare(paths[a], paths[b]) }) {
		at, isNew := durable[n], false
		if now := current[n]; now == at {
			isNew = true
		} else if c.survives() {
			at, isNew = now, true
		}
		if at == (place{}) {
			continue
		}
		if other, taken := in[at]; taken && other.new && !isNew {
			continue // another file took the name, and that change survived
		}
		in[at] = entry{n, isNew}
	}
	inside := map[inode]map[string]inode{}
	for at, e := range in {
		if inside[at.dir] == nil {
			inside[at.dir] = map[string]inode{}
		}
		inside[at.dir][at.name] = e.node
	}

	var grow func(n inode) *tree
	grow = func(n inode) *tree {
		t := trees[n]
		_, wasDir := c.d.names[n]
		if t != nil && t.names == nil || t == nil && !wasDir {
			var data []byte
			if t != nil {
				data = t.data
			} else {
				data = c.d.files[n]
			}
			return &tree{node: n, data: c.tear(c.d.files[n], data)}
		}
		out := &tree{node: n, names: map[string]*tree{}}
		for _, name := range slices.Sorted(maps.Keys(inside[n])) {
			out.names[name] = grow(inside[n][name])
		}
		return out
	}
	return grow(now.node)
}

// tear returns a file after a power loss, from its durable bytes (was) and its bytes in memory (now).
func (c *powerLoss) tear(was, now []byte) []byte {
	size := len(was)
	if c.survives() {
		size = len(now)
	} else if grown := len(now) - len(was); grown > 0 && c.percent > 0 {
		size += c.random.IntN(grown + 1)
		if c.random.IntN(2) == 0 {
			size = max(len(was), size/sector*sector)
		}
	}
	out := make([]byte, size)
	copy(out, was)
	for i := 0; i*sector < size; i++ {
		if c.survives() {
			copy(sectorOf(out, i), sectorOf(now, i))
		}
	}
	return out
}

// walk calls visit with t and everything in it.
func (t *tree) walk(at place, path string, visit func(*tree, place, string)) {
	visit(t, at, path)
	for name, child := range t.names {
		child.walk(place{t.node, name}, path+"/"+name, visit)
	}
}

// write creates t at path.
func (t *tree) write(path string) error {
	if t.names == nil {
		return os.WriteFile(path, t.data, 0o640)
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	for name, child := range t.names {
		if err := child.write(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}
