//go:build !windows

package powerfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// FS is a mounted file system. All methods may be called from any goroutine.
type FS struct {
	dir    string
	server *fuse.Server

	mu       sync.Mutex
	disk     *disk
	handles  map[uint64]*handle
	lastFh   uint64
	off      bool // the power is off
	readOnly bool
	trap     string // prefix of a file's name: the next write to such a file makes the file system read-only
	failing  int    // how many of the next syncs fail
	failed   int    // how many syncs have failed
	slow     time.Duration
	syncs    int
	cuts     int
	dropped  Lost
	armed    *armed
}

// Moment is an operation at which a cut may happen.
type Moment int

const (
	Write Moment = iota // data is written
	Name                // a name is created, removed or changed
	Sync                // a sync is about to begin
)

type armed struct {
	moment Moment
	left   int
	seed   uint64
	cut    chan struct{}
}

// Lost counts the data that was unsynced at cuts.
type Lost struct {
	Sectors int // that were written and not synced
	Names   int // changes of names that were not synced
	Files   int // whose data or length was not synced
}

// handle is an open file or directory.
type handle struct {
	node    *node
	flags   uint32
	entries []fuse.DirEntry // of a directory, when it was last rewound
}

// totalBytes is the size of the file system until SetSize is called.
const totalBytes = 64 << 30

// Mount mounts a new, empty file system on dir. The error says why this is impossible, for example without FUSE.
func Mount(dir string) (*FS, error) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return nil, fmt.Errorf("create a mount for FUSE: %w", err)
	}
	f := &FS{dir: dir, disk: newDisk(), handles: map[uint64]*handle{}}
	server, err := fuse.NewServer(&raw{RawFileSystem: fuse.NewDefaultRawFileSystem(), f: f}, dir, &fuse.MountOptions{
		FsName: "powerfs", Name: "powerfs", DirectMountStrict: true, DisableXAttrs: true, DisableReadDirPlus: true, MaxWrite: 512 << 10, DisableSplice: true,
		IgnoreSecurityLabels: true,
	})
	if err != nil {
		return nil, fmt.Errorf("mount a FUSE file system on %s: %w", dir, err)
	}
	f.server = server
	go server.Serve() // returns when the file system is unmounted
	if err := server.WaitMount(); err != nil {
		return nil, fmt.Errorf("mount a FUSE file system on %s: %w", dir, err)
	}
	return f, nil
}

// Close unmounts the file system, even if somebody still has a file open.
func (f *FS) Close() error {
	f.mu.Lock()
	f.off = true
	f.mu.Unlock()
	if err := unmount(f.dir); err != nil {
		return fmt.Errorf("unmount %s: %w", f.dir, err)
	}
	return nil
}

// CutAt cuts the power, as Cut does, at the n-th occurrence of moment from now. Then it closes the channel. A later CutAt
// or Cut replaces it.
func (f *FS) CutAt(moment Moment, n int, seed uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = &armed{moment, max(n, 1), seed, make(chan struct{})}
	return f.armed.cut
}

// at is called at each moment. It reports whether it has cut the power. The caller holds the lock.
func (f *FS) at(moment Moment) bool {
	a := f.armed
	if a == nil || a.moment != moment {
		return false
	}
	if a.left--; a.left > 0 {
		return false
	}
	f.cut(a.seed)
	close(a.cut)
	return true
}

// Cut cuts the power. The seed decides which unsynced data survives; all other unsynced data is lost. Until PowerOn every
// request fails with EIO. Requests on files that are open now fail forever.
func (f *FS) Cut(seed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut(seed)
}

func (f *FS) cut(seed uint64) {
	f.off = true
	f.cuts++
	f.armed = nil
	f.dropped.Names += len(f.disk.changes)
	for _, n := range f.disk.nodes {
		if n.dir {
			continue
		}
		f.dropped.Sectors += len(n.dirty)
		if len(n.dirty) > 0 || len(n.sizes) > 0 {
			f.dropped.Files++
		}
	}
	f.disk.cut(rand.New(rand.NewPCG(seed, 0)))
	f.handles = map[uint64]*handle{}
	f.failing, f.readOnly, f.trap = 0, false, ""
}

// PowerOn lets requests succeed again after a Cut.
func (f *FS) PowerOn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = false
}

// SetReadOnly makes every change and every sync fail with EROFS, as after an error that made the kernel remount the
// file system.
func (f *FS) SetReadOnly(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readOnly, f.trap = on, ""
}

// ReadOnlyAt makes the file system read-only at the next write to a file whose name began with prefix when it was
// created.
func (f *FS) ReadOnlyAt(prefix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trap = prefix
}

// SetSize sets the size of the file system, including existing files. With 0, only memory limits it.
func (f *FS) SetSize(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disk.limit = bytes
}

// FailSyncs makes the next n syncs fail with EIO.
func (f *FS) FailSyncs(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = n
}

// SlowSyncs makes each sync take this much longer, as on a busy or distant disk. 0 ends that.
func (f *FS) SlowSyncs(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = d
}

// Used returns the bytes that files occupy.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disk.used
}

// Syncs returns the number of syncs, and how many of them failed.
func (f *FS) Syncs() (all, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncs, f.failed
}

// Unsynced returns counts of the data that was unsynced at all cuts so far.
func (f *FS) Unsynced() Lost {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}
