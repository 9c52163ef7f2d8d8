//go:build !windows

package powerfs

import (
	"maps"
	"slices"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// raw answers the kernel. The kernel caches nothing: names and attributes expire immediately, and files are opened for
// direct I/O.
type raw struct {
	fuse.RawFileSystem
	f *FS
}

func (r *raw) String() string { return "powerfs" }

// begin locks the file system and finds the node of a request, or returns a status that says why there is none. The
// caller unlocks.
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

// add adds a new node, or another name of a node, to dir.
func (r *raw) add(dir *node, name string, n *node, out *fuse.EntryOut) fuse.Status {
	r.f.disk.apply(change1(dir, name, n))
	entry(n, out)
	return r.changed()
}

// changed returns the status after a change of names.
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
