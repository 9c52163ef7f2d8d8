package sim

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/tidwall/wal"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// inode identifies a file or directory of a disk, whatever its name. Ghosts, which have only durable bytes, have the
// high bit.
type inode uint64

const ghost inode = 1 << 63

// disk is the directory of one server's journal, in real files, together with what of it is durable: of each file the
// bytes that an fsync has covered, of each directory the names. What is in the files and not here is in the page cache,
// so to speak: a killed process leaves it to the next one, a power cut takes it, keeps it, or tears it.
//
// It sits below package journal, in the calls that journal.Hooks names. Files are the real ones because tidwall/wal
// knows no others; they lie in memory where the machine has such a file system.
type disk struct {
	root string
	// fault is asked before each call: it may take its time, crash the machine, or return the error that the call ends
	// with.
	fault func(call, path string) error
	lie   lie

	mu           sync.Mutex
	random       *rand.Rand
	files        map[inode][]byte           // durable bytes
	names        map[inode]map[string]inode // durable names in directories
	failedWrites map[inode]map[int][]byte   // sectors whose write an fsync reported as failed, as they were then
	logs         map[*wal.Log]string        // the volumes of handles
	tails        map[*wal.Log]string        // their last segments at the last write
}

// lie is a promise that a disk breaks; simulations with one must fail, or they prove nothing.
type lie string

const (
	honest      lie = ""
	fsyncLies   lie = "fsync of files does nothing"
	dirSyncLies lie = "fsync of directories does nothing"
)

// tops are the directories below root that belong to the disk. The rest (a lock, the ballast) matters to nobody after a
// crash.
var topFolders = []string{"journal", "archive"}

// newDisk takes the directory at root, all of which is durable.
func newDisk(root string, random *rand.Rand, l lie) (*disk, error) {
	d := &disk{
		root: root, random: random, lie: l,
		files: map[inode][]byte{}, names: map[inode]map[string]inode{}, failedWrites: map[inode]map[int][]byte{}, logs: map[*wal.Log]string{}, tails: map[*wal.Log]string{},
	}
	return d, d.settle(root)
}

// settle makes everything at path durable.
func (d *disk) settle(path string) error {
	node, names, err := d.look(path)
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

// look returns what is at path, with the names in it if it is a directory.
func (d *disk) look(path string) (node inode, names map[string]inode, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, nil, err
	}
	node = inode(info.Sys().(*syscall.Stat_t).Ino)
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
			continue // it left meanwhile
		}
		if err != nil {
			return 0, nil, err
		}
		names[e.Name()] = inode(info.Sys().(*syscall.Stat_t).Ino)
	}
	return node, names, nil
}

// keep notes that what is at path is durable, but for sectors that were spoilt and not written since. d.mu is held.
func (d *disk) keep(path string) error {
	node, names, err := d.look(path)
	if err != nil {
		return err
	}
	if names != nil {
		if d.lie == dirSyncLies {
			return nil
		}
		return d.keepNames(node, names)
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

// keepNames notes the names in a directory as durable. A rename between directories is one step: as every journaling
// file system has it, the fsync of either makes it durable in both.
func (d *disk) keepNames(dir inode, names map[string]inode) error {
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
		for node := child; places[node] != (place{}); node = places[node].dir { // with the directories it is in now
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

// spoil notes what a failed fsync may have lost for good.
func (d *disk) markFailed(path string) error {
	node, names, err := d.look(path)
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

// unspoil notes that some bytes were written again, so that the next fsync has something to do.
func (d *disk) clearFailed(path string, offset int64, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	node, _, err := d.look(path)
	maps.DeleteFunc(d.failedWrites[node], func(i int, _ []byte) bool {
		return int64(i+1)*sector > offset && int64(i)*sector < offset+int64(n)
	})
	return err
}

// sectorOf returns sector i of data, which may end within or before it.
func sectorOf(data []byte, i int) []byte {
	return data[min(i*sector, len(data)):min((i+1)*sector, len(data))]
}

// tree is a file or directory as a process sees it.
type tree struct {
	node  inode
	data  []byte
	names map[string]*tree // nil: a file
}

// scan reads what is at path, as a process sees it.
func (d *disk) scan(path string) (*tree, error) {
	node, names, err := d.look(path)
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
			continue // it left meanwhile
		}
		if err != nil {
			return nil, err
		}
		t.names[name] = child
	}
	return t, nil
}
