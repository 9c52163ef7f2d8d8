package sim

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tidwall/wal"
)

// sector is the number of bytes that a disk writes as a whole or not at all.
const sector = 512

// inode identifies a file or directory of a disk, whatever its name. A file that exists only in the durable state has
// the high bit set.
type inode uint64

const durableOnly inode = 1 << 63

// disk is the directory of one server's journal, in real files. It also knows what part of it is durable: the bytes of
// each file that an fsync has covered, and the names in each directory.
//
// Other data in the files is like data in the page cache. After a kill, the next process finds it. A power loss loses it,
// keeps it, or tears it.
//
// The disk is below package journal, in the calls that journal.Hooks names. The files are real, because tidwall/wal can
// only use real files. They are in memory if the machine has a file system in memory.
type disk struct {
	root string
	// fault is called before each call. It may wait, end the life, or return an error, with which the call then fails.
	fault func(call, path string) error
	lie   lie

	mu           sync.Mutex
	random       *rand.Rand
	files        map[inode][]byte           // the durable bytes of each file
	names        map[inode]map[string]inode // the durable names in each directory
	failedWrites map[inode]map[int][]byte   // sectors that a failed fsync did not write, with their content at that time
	logs         map[*wal.Log]string        // the volume of each handle
	tails        map[*wal.Log]string        // the last segment of each handle at its last write
}

// lie is a promise that a disk breaks, or the API. A simulation with it must fail; otherwise it would prove nothing.
type lie string

const (
	honest      lie = ""
	fsyncLies   lie = "fsync of files does nothing"
	dirSyncLies lie = "fsync of directories does nothing"
	actorLies   lie = "requests lose their keys" // before the engine sees them
)

// topFolders are the directories below root that belong to the disk. The other files (a lock, the ballast) do not matter
// after a crash.
var topFolders = []string{"journal", "archive"}

// newDisk takes the files at root, all of them as durable.
func newDisk(root string, random *rand.Rand, l lie) (*disk, error) {
	d := &disk{
		root: root, random: random, lie: l,
		files: map[inode][]byte{}, names: map[inode]map[string]inode{}, failedWrites: map[inode]map[int][]byte{}, logs: map[*wal.Log]string{}, tails: map[*wal.Log]string{},
	}
	return d, d.settle(root)
}

// settle makes everything at path durable.
func (d *disk) settle(path string) error {
	node, names, err := d.stat(path)
	if err != nil {
		return err
	}
	if names == nil {
		d.files[node], err = os.ReadFile(path)
		return err
	}
	d.names[node] = names
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := d.settle(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// stat returns the inode at path, and the names in it if it is a directory.
func (d *disk) stat(path string) (node inode, names map[string]inode, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, nil, err
	}
	node = inodeOf(info)
	if !info.IsDir() {
		return node, nil, nil
	}
	names = map[string]inode{}
	entries, err := os.ReadDir(path)
	if err != nil {
		return 0, nil, err
	}
	for _, e := range entries {
		if path == d.root && !slices.Contains(topFolders, e.Name()) {
			continue
		}
		info, err := e.Info()
		if os.IsNotExist(err) {
			continue // it has been removed since
		}
		if err != nil {
			return 0, nil, err
		}
		names[e.Name()] = inodeOf(info)
	}
	return node, names, nil
}

// markDurable records that the file or directory at path is durable, except for sectors that a failed fsync did not write
// and that were not written again since. The caller holds d.mu.
func (d *disk) markDurable(path string) error {
	node, names, err := d.stat(path)
	if err != nil {
		return err
	}
	if names != nil {
		if d.lie == dirSyncLies {
			return nil
		}
		return d.markNamesDurable(node, names)
	}
	if d.lie == fsyncLies {
		return nil
	}
	now, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before := d.files[node]
	for i, was := range d.failedWrites[node] {
		if bytes.Equal(was, sectorOf(now, i)) {
			copy(sectorOf(now, i), sectorOf(before, i))
			if rest := i*sector + len(sectorOf(before, i)); rest < min(len(now), (i+1)*sector) {
				clear(now[rest:min(len(now), (i+1)*sector)])
			}
		} else {
			delete(d.failedWrites[node], i)
		}
	}
	d.files[node] = now
	return nil
}

// markNamesDurable records that the names in a directory are durable. A rename between directories is one step: an fsync
// of either directory makes it durable in both, as in every journaling file system.
func (d *disk) markNamesDurable(dir inode, names map[string]inode) error {
	before := d.names[dir]
	d.names[dir] = names
	inside := map[inode]bool{}
	for _, child := range names {
		inside[child] = true
	}
	for _, child := range before {
		if inside[child] {
			continue
		}
		now, err := d.scan(d.root)
		if err != nil {
			return err
		}
		places := map[inode]place{}
		now.walk(place{}, "", func(t *tree, at place, _ string) { places[t.node] = at })
		for node := child; places[node] != (place{}); node = places[node].dir { // and the directories that contain it now
			at := places[node]
			if d.names[at.dir] == nil {
				d.names[at.dir] = map[string]inode{}
			}
			d.names[at.dir][at.name] = node
		}
	}
	for other, held := range d.names {
		if other == dir {
			continue
		}
		maps.DeleteFunc(held, func(_ string, child inode) bool { return inside[child] })
	}
	return nil
}

// markFailed chooses the sectors that a failed fsync loses for good.
func (d *disk) markFailed(path string) error {
	node, names, err := d.stat(path)
	if err != nil || names != nil || d.random.IntN(2) == 0 {
		return err
	}
	now, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lost := map[int][]byte{}
	for i := 0; i*sector < len(now); i++ {
		if s := sectorOf(now, i); !bytes.Equal(s, sectorOf(d.files[node], i)) && d.random.IntN(2) == 0 {
			lost[i] = bytes.Clone(s)
		}
	}
	d.failedWrites[node] = lost
	return nil
}

// clearFailed records that bytes were written again, so that the next fsync writes them.
func (d *disk) clearFailed(path string, offset int64, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	node, _, err := d.stat(path)
	maps.DeleteFunc(d.failedWrites[node], func(i int, _ []byte) bool {
		return int64(i+1)*sector > offset && int64(i)*sector < offset+int64(n)
	})
	return err
}

// sectorOf returns sector i of data. At the end of data it is shorter, or empty.
func sectorOf(data []byte, i int) []byte {
	return data[min(i*sector, len(data)):min((i+1)*sector, len(data))]
}

// tree is a file or directory as a process sees it.
type tree struct {
	node  inode
	data  []byte
	names map[string]*tree // nil: a file
}

// scan reads the tree at path as a process sees it.
func (d *disk) scan(path string) (*tree, error) {
	node, names, err := d.stat(path)
	if err != nil {
		return nil, err
	}
	t := &tree{node: node}
	if names == nil {
		t.data, err = os.ReadFile(path)
		return t, err
	}
	t.names = map[string]*tree{}
	for name := range names {
		child, err := d.scan(filepath.Join(path, name))
		if os.IsNotExist(err) {
			continue // it has been removed since
		}
		if err != nil {
			return nil, err
		}
		t.names[name] = child
	}
	return t, nil
}
