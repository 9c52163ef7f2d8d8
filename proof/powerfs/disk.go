//go:build !windows

package powerfs

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// sectorBytes is the unit that a disk writes as a whole. After a cut each sector is old or new, never a mixture.
const sectorBytes = 512

// keptVersions bounds how many contents of a sector between two syncs can survive a cut.
const keptVersions = 3

// node is a file or a directory. The lock of FS guards all of it.
type node struct {
	id    uint64
	dir   bool
	made  string // the name with which it was created
	mode  uint32 // permissions
	mtime time.Time
	content
	directory

	links   int // names that lead to the node
	durably int // durable names that lead to the node
	pending int // unsynced changes that involve the node
	open    int // open handles

	released bool // its space was freed
}

// directory is the content of a directory.
type directory struct {
	names   map[string]*node // as a lookup sees them
	durable map[string]*node // as they survive a cut
	subdirs int              // how many of names are directories
}

// content is the content of a file. Invariant: sectors that are not in dirty are equal in data and synced, as far as both
// have them. After the end of synced, these sectors of data have zeros.
type content struct {
	data   []byte            // as a read returns it
	synced []byte            // as it survives a cut
	dirty  map[int64]*sector // sectors of data that may differ from synced
	sizes  []int64           // the lengths that the file had since the last sync
}

// sector is a sector that was written since it was last synced.
type sector struct {
	versions [][]byte // contents between the durable one and the present one
	lost     bool     // a sync of it failed, so later syncs take it for clean and do not write it
}

// slot is a name in a directory, whether it exists or not.
type slot struct {
	dir  *node
	name string
}

// change is an unsynced operation on names. Afterwards each slot leads to its node, or to nothing if the node is nil. A
// change survives as a whole or not at all.
type change struct {
	slots [2]slot
	nodes [2]*node
	n     int
}

// disk is the tree of files, and the record of its durable part.
type disk struct {
	root    *node
	nodes   map[uint64]*node
	lastID  uint64
	changes []*change // unsynced, oldest first
	stale   [][]byte  // sectors of files that were removed or cut
	limit   int64     // bytes; 0: none
	used    int64
}

func newDisk() *disk {
	d := &disk{nodes: map[uint64]*node{}, lastID: rootID - 1}
	d.root = d.newNode(true, 0o755)
	d.root.links, d.root.durably = 1, 1
	return d
}

// rootID is FUSE's id of the root.
const rootID = 1

func (d *disk) newNode(dir bool, mode uint32) *node {
	d.lastID++
	n := &node{id: d.lastID, dir: dir, mode: mode & 0o7777, mtime: time.Now()}
	if dir {
		n.names, n.durable = map[string]*node{}, map[string]*node{}
	} else {
		n.dirty = map[int64]*sector{}
	}
	d.nodes[n.id] = n
	return n
}

// apply makes a change visible. The change is not durable.
func (d *disk) apply(c *change) {
	var left []*node
	for i := range c.n {
		s, to := c.slots[i], c.nodes[i]
		if old := s.dir.names[s.name]; old != nil {
			old.links--
			if old.dir {
				s.dir.subdirs--
			}
			left = append(left, old)
		}
		if to == nil {
			delete(s.dir.names, s.name)
		} else {
			s.dir.names[s.name] = to
			to.links++
			to.pending++
			if to.dir {
				s.dir.subdirs++
			}
		}
		s.dir.mtime = time.Now()
	}
	d.changes = append(d.changes, c)
	for _, n := range left {
		d.free(n)
	}
}

// settle makes a change durable.
func (d *disk) settle(c *change) {
	for i := range c.n {
		s, to := c.slots[i], c.nodes[i]
		old := s.dir.durable[s.name]
		if to == nil {
			delete(s.dir.durable, s.name)
		} else {
			s.dir.durable[s.name] = to
			to.durably++
			to.pending--
		}
		if old != nil {
			old.durably--
			d.free(old)
		}
	}
}

func change1(dir *node, name string, to *node) *change {
	return &change{slots: [2]slot{{dir, name}}, nodes: [2]*node{to}, n: 1}
}

func (d *disk) rename(from slot, to slot) {
	d.apply(&change{slots: [2]slot{from, to}, nodes: [2]*node{nil, from.dir.names[from.name]}, n: 2})
}

// free frees the space of n when no name and no handle leads to it. If a cut cannot bring n back either, free forgets it.
func (d *disk) free(n *node) {
	if n.links > 0 || n.open > 0 || d.nodes[n.id] != n {
		return
	}
	if !n.dir && !n.released {
		n.released = true
		d.used -= blocks(int64(len(n.data)))
	}
	if n.pending > 0 || n.durably > 0 {
		return
	}
	delete(d.nodes, n.id)
	if n.dir {
		d.syncDir(n) // nobody can sync a removed directory
		return
	}
	d.keepStale(n.data)
	n.data, n.synced, n.dirty = nil, nil, nil
}

// keepStale keeps some sectors of a removed file. They may appear as garbage in another file that was made longer and
// whose data was lost.
func (d *disk) keepStale(data []byte) {
	const most = 256
	for at := 0; at+sectorBytes <= len(data) && at < 8*sectorBytes; at += sectorBytes {
		if len(d.stale) >= most {
			d.stale = d.stale[1:]
		}
		d.stale = append(d.stale, slices.Clone(data[at:at+sectorBytes]))
	}
}

// syncDir makes the names of dir durable: all changes that involve dir, and the earlier changes of the same names.
func (d *disk) syncDir(dir *node) {
	wanted := make([]bool, len(d.changes))
	under := map[slot]bool{}
	for i := len(d.changes) - 1; i >= 0; i-- {
		c := d.changes[i]
		for _, s := range c.slots[:c.n] {
			wanted[i] = wanted[i] || s.dir == dir || under[s]
		}
		if wanted[i] {
			for _, s := range c.slots[:c.n] {
				under[s] = true
			}
		}
	}
	changes := d.changes
	d.changes = nil
	for i, c := range changes {
		if !wanted[i] {
			d.changes = append(d.changes, c)
		}
	}
	for i, c := range changes {
		if wanted[i] {
			d.settle(c)
		}
	}
}

// sectorAt returns sector i of data, padded with zeros.
func sectorAt(data []byte, i int64) []byte {
	out := make([]byte, sectorBytes)
	if at := i * sectorBytes; at < int64(len(data)) {
		copy(out, data[at:])
	}
	return out
}

// touch records that the sectors of the bytes from … to are about to change.
func (n *node) touch(from, to int64) {
	for i := from / sectorBytes; i*sectorBytes < to; i++ {
		s := n.dirty[i]
		switch {
		case s == nil:
			n.dirty[i] = &sector{}
		case len(s.versions) < keptVersions:
			s.lost = false
			s.versions = append(s.versions, sectorAt(n.data, i))
		default:
			s.lost = false
			s.versions[rand.IntN(keptVersions)] = sectorAt(n.data, i)
		}
	}
}

const blockBytes = 4096

func blocks(size int64) int64 { return (size + blockBytes - 1) / blockBytes * blockBytes }

// resize changes the length of n. A longer file has zeros at its end.
func (d *disk) resize(n *node, size int64) syscall.Errno {
	old := int64(len(n.data))
	grows := blocks(size) - blocks(old)
	if grows > 0 && d.limit > 0 && d.used+grows > d.limit {
		return syscall.ENOSPC
	}
	if size < old {
		n.touch(size, old)
		d.keepStale(n.data[size:])
		clear(n.data[size:])
		n.data = n.data[:size]
	} else {
		n.data = slices.Grow(n.data, int(size-old))[:size]
		clear(n.data[old:])
	}
	d.used += grows
	if len(n.sizes) < 64 {
		n.sizes = append(n.sizes, old)
	}
	n.mtime = time.Now()
	return 0
}

// write writes data at off, and returns how many bytes had space.
func (d *disk) write(n *node, data []byte, off int64) (int, syscall.Errno) {
	if end := off + int64(len(data)); end > int64(len(n.data)) {
		if errno := d.resize(n, end); errno != 0 {
			room := blocks(int64(len(n.data))) + max(d.limit-d.used, 0)/blockBytes*blockBytes
			if room <= off {
				return 0, errno
			}
			data = data[:min(room-off, int64(len(data)))]
			if end := off + int64(len(data)); end > int64(len(n.data)) {
				if errno := d.resize(n, end); errno != 0 {
					return 0, errno
				}
			}
		}
	}
	n.touch(off, off+int64(len(data)))
	copy(n.data[off:], data)
	n.mtime = time.Now()
	return len(data), 0
}

// sync makes the data and the length of n durable, but not its name.
func (n *node) sync() {
	if grow := len(n.data) - len(n.synced); grow > 0 {
		n.synced = slices.Grow(n.synced, grow)
		old := len(n.synced)
		n.synced = n.synced[:len(n.data)]
		clear(n.synced[old:])
	} else {
		clear(n.synced[len(n.data):])
		n.synced = n.synced[:len(n.data)]
	}
	for i, s := range n.dirty {
		at := i * sectorBytes
		if at >= int64(len(n.data)) {
			delete(n.dirty, i)
		} else if !s.lost {
			copy(n.synced[at:min(at+sectorBytes, int64(len(n.synced)))], n.data[at:])
			delete(n.dirty, i)
		}
	}
	n.sizes = n.sizes[:0]
}

// failSync is a sync that fails. As in Linux, the kernel then takes the data for clean, although it may not be on disk.
func (n *node) failSync() {
	for _, s := range n.dirty {
		s.lost = true
	}
}
