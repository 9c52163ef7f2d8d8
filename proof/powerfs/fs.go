package powerfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"

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
	off      bool // the power is
	readOnly bool
	trap     string // prefix of a file's name: the next write to such a file finds the file system read-only
	failing  int    // syncs that will fail
	failed   int    // syncs that did fail
	syncs    int
	cuts     int
	dropped  Lost
	armed    *armed
}

// Moment is what a cut may wait for.
type Moment int

const (
	Write Moment = iota // data was written
	Name                // a name was made, removed or changed
	Sync                // a sync is about to begin
)

type armed struct {
	moment Moment
	left   int
	seed   uint64
	cut    chan struct{}
}

// Lost counts what was unsynced at cuts.
type Lost struct {
	Sectors int // written and not synced
	Names   int // changes of names that were not synced
	Files   int // with either data or a length that was not synced
}

// handle is an open file or directory.
type handle struct {
	node    *node
	flags   uint32
	entries []fuse.DirEntry // of a directory, as of its last rewinding
}

// totalBytes is the size that the file system says it has while no other was set.
const totalBytes = 64 << 30

// Mount mounts a new, empty file system on dir. The error says why there can be none, where FUSE cannot be had.
func Mount(dir string) (*FS, error) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return nil, fmt.Errorf("no FUSE: %w", err)
	}
	f := &FS{dir: dir, disk: newDisk(), handles: map[uint64]*handle{}}
	server, err := fuse.NewServer(&raw{RawFileSystem: fuse.NewDefaultRawFileSystem(), f: f}, dir, &fuse.MountOptions{
		FsName: "powerfs", Name: "powerfs", DirectMountStrict: true, DisableXAttrs: true, DisableReadDirPlus: true, MaxWrite: 512 << 10, DisableSplice: true,
		IgnoreSecurityLabels: true,
	})
	if err != nil {
		return nil, fmt.Errorf("no FUSE: mount %s: %w", dir, err)
	}
	f.server = server
	go server.Serve() // ends with the mount
	if err := server.WaitMount(); err != nil {
		return nil, fmt.Errorf("no FUSE: mount %s: %w", dir, err)
	}
	return f, nil
}

// Close unmounts it, also where somebody still has a file open.
func (f *FS) Close() error {
	f.mu.Lock()
	f.off = true
	f.mu.Unlock()
	if err := syscall.Unmount(f.dir, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", f.dir, err)
	}
	return nil
}

// CutAt cuts the power, as Cut does, at the n-th such moment from now: where most is at stake. The channel is closed
// then. Another CutAt, or a Cut, takes its place.
func (f *FS) CutAt(moment Moment, n int, seed uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = &armed{moment, max(n, 1), seed, make(chan struct{})}
	return f.armed.cut
}

// at is called at each moment, with the lock held. It reports whether the power was cut.
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

// Cut cuts the power: what survives, drawn by seed, is all there is from now on. Until PowerOn every request fails with
// EIO, and so do, for ever, those on files that are open now.
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

// PowerOn has requests answered again after a Cut.
func (f *FS) PowerOn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = false
}

// SetReadOnly has every change and every sync fail with EROFS, as after an error that made the kernel remount the file
// system.
func (f *FS) SetReadOnly(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readOnly, f.trap = on, ""
}

// ReadOnlyAt has the file system turn read-only at the next write to a file that was created with a name that begins
// so.
func (f *FS) ReadOnlyAt(prefix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trap = prefix
}

// SetSize says how many bytes there are in all, files that exist included; 0: as many as memory has.
func (f *FS) SetSize(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disk.limit = bytes
}

// FailSyncs has the next n syncs fail with EIO.
func (f *FS) FailSyncs(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = n
}

// Used returns the bytes that files take.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.disk.used
}

// Syncs returns how many syncs there were, and how many of them failed.
func (f *FS) Syncs() (all, failed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.syncs, f.failed
}

// Unsynced returns what was unsynced at all cuts so far, and so was theirs to lose.
func (f *FS) Unsynced() Lost {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}
