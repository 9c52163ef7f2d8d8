//go:build !windows

package powerfs

import (
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

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
		return fuse.Status(syscall.EEXIST) // another request created it after the kernel had looked the name up
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

// Flush is not supported, so the kernel stops calling it. Otherwise a process that ends with open files would wait for an
// answer, and if it serves this file system, it would wait forever.
func (r *raw) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

func (r *raw) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return r.sync(in.Fh) }

func (r *raw) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status { return r.sync(in.Fh) }

func (r *raw) sync(fh uint64) fuse.Status {
	r.f.mu.Lock()
	slow := r.f.slow
	r.f.mu.Unlock()
	time.Sleep(slow)
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
