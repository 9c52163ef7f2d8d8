package powerfs

import (
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// raw answers the kernel. Nothing is cached there: entries and attributes are valid for no time, and files are opened for direct I/O.
type raw struct {
	fuse.RawFileSystem
	f *FS
}

func (r *raw) String() string { return "powerfs" }

// begin locks and finds the node of a request; where there is none the status says why. The caller unlocks.
func (r *raw) begin(id uint64, change bool) (*node, fuse.Status) {
	r.f.mu.Lock()
	switch n := r.f.disk.nodes[id]; {
	case r.f.off || n == nil:
		return nil, fuse.EIO
	case change && r.f.readOnly:
		return nil, fuse.EROFS
	default:
		return n, fuse.OK
	}
}

// beginHandle is begin for an open file.
func (r *raw) beginHandle(fh uint64, change bool) (*handle, fuse.Status) {
	r.f.mu.Lock()
	switch h := r.f.handles[fh]; {
	case r.f.off || h == nil:
		return nil, fuse.EIO
	case change && r.f.readOnly:
		return nil, fuse.EROFS
	default:
		return h, fuse.OK
	}
}

func (r *raw) end() { r.f.mu.Unlock() }

func attr(n *node, out *fuse.Attr) {
	out.Ino = n.id
	out.Mode = n.mode | syscall.S_IFREG
	out.Nlink = uint32(n.links)
	if n.dir {
		out.Mode = n.mode | syscall.S_IFDIR
		out.Nlink = uint32(2 + n.subdirs)
	}
	out.Size = uint64(len(n.data))
	out.Blocks = uint64(blocks(int64(len(n.data))) / 512)
	out.Blksize = blockBytes
	out.SetTimes(&n.mtime, &n.mtime, &n.mtime)
}

func entry(n *node, out *fuse.EntryOut) {
	out.NodeId, out.Generation = n.id, 1
	attr(n, &out.Attr)
}

func (r *raw) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir, status := r.begin(in.NodeId, false)
	defer r.end()
	if !status.Ok() {
		return status
	}
	n := dir.names[name]
	if n == nil {
		return fuse.ENOENT
	}
	entry(n, out)
	return fuse.OK
}

func (r *raw) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, status := r.begin(in.NodeId, false)
	defer r.end()
	if status.Ok() {
		attr(n, &out.Attr)
	}
	return status
}

func (r *raw) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n, status := r.begin(in.NodeId, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	if size, ok := in.GetSize(); ok {
		if n.dir {
			return fuse.Status(syscall.EISDIR)
		}
		if errno := r.f.disk.resize(n, int64(size)); errno != 0 {
			return fuse.Status(errno)
		}
	}
	if mode, ok := in.GetMode(); ok {
		n.mode = mode
	}
	if t, ok := in.GetMTime(); ok {
		n.mtime = t
	}
	attr(n, &out.Attr)
	return fuse.OK
}

// add gives a new node or another name of one to dir.
func (r *raw) add(dir *node, name string, n *node, out *fuse.EntryOut) fuse.Status {
	r.f.disk.apply(change1(dir, name, n))
	entry(n, out)
	return r.changed()
}

// changed is the answer to a change of names that was made.
func (r *raw) changed() fuse.Status {
	if r.f.at(Name) {
		return fuse.EIO
	}
	return fuse.OK
}

func (r *raw) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, status := r.begin(in.NodeId, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	if dir.names[name] != nil {
		return fuse.Status(syscall.EEXIST)
	}
	return r.add(dir, name, r.f.disk.newNode(true, in.Mode), out)
}

func (r *raw) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, status := r.begin(in.NodeId, true)
	defer r.end()
	switch {
	case !status.Ok():
		return status
	case in.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return fuse.EPERM
	case dir.names[name] != nil:
		return fuse.Status(syscall.EEXIST)
	}
	return r.add(dir, name, r.f.disk.newNode(false, in.Mode), out)
}

func (r *raw) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	dir, status := r.begin(in.NodeId, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	n := r.f.disk.nodes[in.Oldnodeid]
	switch {
	case n == nil:
		return fuse.EIO
	case n.dir:
		return fuse.EPERM
	case dir.names[name] != nil:
		return fuse.Status(syscall.EEXIST)
	}
	return r.add(dir, name, n, out)
}

func (r *raw) Unlink(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return r.remove(in.NodeId, name, false)
}

func (r *raw) Rmdir(_ <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return r.remove(in.NodeId, name, true)
}

func (r *raw) remove(id uint64, name string, isDir bool) fuse.Status {
	dir, status := r.begin(id, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	n := dir.names[name]
	switch {
	case n == nil:
		return fuse.ENOENT
	case isDir && !n.dir:
		return fuse.ENOTDIR
	case !isDir && n.dir:
		return fuse.Status(syscall.EISDIR)
	case len(n.names) > 0:
		return fuse.Status(syscall.ENOTEMPTY)
	}
	r.f.disk.apply(change1(dir, name, nil))
	return r.changed()
}

func (r *raw) Rename(_ <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	from, status := r.begin(in.NodeId, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	to := r.f.disk.nodes[in.Newdir]
	if to == nil {
		return fuse.EIO
	}
	n, over := from.names[oldName], to.names[newName]
	const noReplace = 1
	switch {
	case in.Flags&^noReplace != 0:
		return fuse.EINVAL
	case n == nil:
		return fuse.ENOENT
	case over == nil:
	case over == n:
		return fuse.OK
	case in.Flags&noReplace != 0:
		return fuse.Status(syscall.EEXIST)
	case over.dir && !n.dir:
		return fuse.Status(syscall.EISDIR)
	case !over.dir && n.dir:
		return fuse.ENOTDIR
	case len(over.names) > 0:
		return fuse.Status(syscall.ENOTEMPTY)
	}
	r.f.disk.rename(slot{from, oldName}, slot{to, newName})
	return r.changed()
}

func (r *raw) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

// opened makes a handle.
func (r *raw) opened(n *node, flags uint32, out *fuse.OpenOut) {
	r.f.lastFh++
	r.f.handles[r.f.lastFh] = &handle{node: n, flags: flags}
	n.open++
	out.Fh = r.f.lastFh
	if !n.dir {
		out.OpenFlags = fuse.FOPEN_DIRECT_IO
	}
}

func (r *raw) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	dir, status := r.begin(in.NodeId, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	if dir.names[name] != nil {
		return fuse.Status(syscall.EEXIST) // the kernel had looked it up
	}
	n := r.f.disk.newNode(false, in.Mode)
	n.made = name
	if status := r.add(dir, name, n, &out.EntryOut); !status.Ok() {
		return status
	}
	r.opened(n, in.Flags, &out.OpenOut)
	return fuse.OK
}

func (r *raw) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, status := r.begin(in.NodeId, in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY)
	defer r.end()
	if !status.Ok() {
		return status
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		if errno := r.f.disk.resize(n, 0); errno != 0 {
			return fuse.Status(errno)
		}
	}
	r.opened(n, in.Flags, out)
	return fuse.OK
}

func (r *raw) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	h, status := r.beginHandle(in.Fh, false)
	defer r.end()
	if !status.Ok() {
		return nil, status
	}
	if in.Offset >= uint64(len(h.node.data)) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(buf[:copy(buf, h.node.data[in.Offset:])]), fuse.OK
}

func (r *raw) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	h, status := r.beginHandle(in.Fh, true)
	defer r.end()
	if !status.Ok() {
		return 0, status
	}
	if r.f.trap != "" && strings.HasPrefix(h.node.made, r.f.trap) {
		r.f.readOnly, r.f.trap = true, ""
		return 0, fuse.EROFS
	}
	at := int64(in.Offset)
	if h.flags&syscall.O_APPEND != 0 {
		at = int64(len(h.node.data))
	}
	n, errno := r.f.disk.write(h.node, data, at)
	if errno != 0 {
		return 0, fuse.Status(errno)
	}
	if r.f.at(Write) {
		return 0, fuse.EIO
	}
	return uint32(n), fuse.OK
}

// Flush is not wanted: the kernel then stops asking, so that a process which ends with files open does not wait for an answer, which
// would be for ever where it serves this file system itself.
func (r *raw) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

func (r *raw) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return r.sync(in.Fh) }

func (r *raw) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return r.sync(in.Fh) }

func (r *raw) sync(fh uint64) fuse.Status {
	h, status := r.beginHandle(fh, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	if r.f.at(Sync) {
		return fuse.EIO
	}
	r.f.syncs++
	switch fail := r.f.failing > 0; {
	case fail:
		r.f.failing--
		r.f.failed++
		if !h.node.dir {
			h.node.failSync()
		}
		return fuse.EIO
	case h.node.dir:
		r.f.disk.syncDir(h.node)
	default:
		h.node.sync()
	}
	return fuse.OK
}

func (r *raw) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h, status := r.beginHandle(in.Fh, true)
	defer r.end()
	if !status.Ok() {
		return status
	}
	const keepSize = 1
	if in.Mode&^keepSize != 0 {
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	if end := int64(in.Offset + in.Length); in.Mode == 0 && end > int64(len(h.node.data)) {
		return fuse.Status(r.f.disk.resize(h.node, end))
	}
	return fuse.OK
}

func (r *raw) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { r.release(in.Fh) }

func (r *raw) ReleaseDir(in *fuse.ReleaseIn) { r.release(in.Fh) }

func (r *raw) release(fh uint64) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if h := r.f.handles[fh]; h != nil {
		delete(r.f.handles, fh)
		h.node.open--
		r.f.disk.free(h.node)
	}
}

func (r *raw) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n, status := r.begin(in.NodeId, false)
	defer r.end()
	if status.Ok() {
		r.opened(n, in.Flags, out)
	}
	return status
}

func (r *raw) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	h, status := r.beginHandle(in.Fh, false)
	defer r.end()
	if !status.Ok() {
		return status
	}
	if in.Offset == 0 {
		h.entries = []fuse.DirEntry{{Name: ".", Mode: syscall.S_IFDIR}, {Name: "..", Mode: syscall.S_IFDIR}}
		for _, name := range slices.Sorted(maps.Keys(h.node.names)) {
			n, kind := h.node.names[name], uint32(syscall.S_IFREG)
			if n.dir {
				kind = syscall.S_IFDIR
			}
			h.entries = append(h.entries, fuse.DirEntry{Name: name, Ino: n.id, Mode: kind})
		}
	}
	for i := int(in.Offset); i < len(h.entries); i++ {
		e := h.entries[i]
		e.Off = uint64(i + 1)
		if !out.AddDirEntry(e) {
			break
		}
	}
	return fuse.OK
}

func (r *raw) StatFs(_ <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	_, status := r.begin(in.NodeId, false)
	defer r.end()
	if !status.Ok() {
		return status
	}
	total := r.f.disk.limit
	if total == 0 {
		total = totalBytes
	}
	out.Bsize, out.Frsize, out.NameLen = blockBytes, blockBytes, 255
	out.Blocks = uint64(total / blockBytes)
	out.Bfree = uint64(max(total-r.f.disk.used, 0) / blockBytes)
	out.Bavail = out.Bfree
	return fuse.OK
}
