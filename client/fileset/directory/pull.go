package directory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/daybookq/daybook/client/fileset"
)

// ErrDamaged: a blob did not have the content that its address promises.
var ErrDamaged = errors.New("directory: damaged blob")

// Pull writes the files and empty directories of a manifest into a directory. It does not fetch files that already have
// the right content. The error wraps ErrNotRegular if something other than a regular file has the path of a file.
func Pull(ctx context.Context, from Source, root *os.Root, m *fileset.Manifest, o Options) (_ Moved, err error) {
	if err := m.Check(); err != nil {
		return Moved{}, err
	}
	if err := makeTree(root, m); err != nil {
		return Moved{}, err
	}
	temporary, remove, err := newTemporary(root)
	if err != nil {
		return Moved{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	p := &pull{from: from, root: root, temporary: temporary}
	err = each(ctx, o.parallel(), len(m.Files), func(ctx context.Context, i int) error {
		if err := p.file(ctx, i, &m.Files[i]); err != nil {
			return fmt.Errorf("pull %q: %w", m.Files[i].Path, err)
		}
		return nil
	})
	return p.moved, err
}

type pull struct {
	from      Source
	root      *os.Root
	temporary string

	mu    sync.Mutex // guards moved
	moved Moved
}

// file ensures that one file exists with the right content.
func (p *pull) file(ctx context.Context, i int, f *fileset.File) error {
	there, err := p.isThere(ctx, f)
	if err != nil {
		return err
	}
	if there {
		p.mu.Lock()
		p.moved.Skipped++
		p.mu.Unlock()
		return nil
	}
	name := p.temporary + "/" + strconv.Itoa(i)
	if err := p.fetch(ctx, name, f); err != nil {
		return errors.Join(err, ignoreMissing(p.root.Remove(name)))
	}
	// If somebody has planted a link at the path, Rename replaces the link and does not follow it.
	if err := p.root.Rename(name, f.Path); err != nil {
		return errors.Join(err, ignoreMissing(p.root.Remove(name)))
	}
	p.mu.Lock()
	p.moved.Files++
	p.moved.Bytes += f.Size
	p.mu.Unlock()
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fetch writes the content of a file to a new file, and verifies it.
func (p *pull) fetch(ctx context.Context, name string, f *fileset.File) (err error) {
	out, err := p.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, modeOf(f)) // the umask of the process applies
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha256.New()
	bounded := &boundedWriter{w: io.MultiWriter(out, h), left: f.Size}
	if err := p.from.CopyBlob(ctx, f.Blob, bounded); err != nil {
		return err
	}
	if got := fileset.Address(h.Sum(nil)); bounded.left != 0 || got != f.Blob {
		return fmt.Errorf("%w: %d bytes with the address %s arrived, not %d with %s", ErrDamaged, f.Size-bounded.left, got, f.Size, f.Blob)
	}
	return nil
}

func modeOf(f *fileset.File) fs.FileMode {
	if f.Executable {
		return 0o777
	}
	return 0o666
}

// boundedWriter fails if it gets more bytes than a file has.
type boundedWriter struct {
	w    io.Writer
	left int64
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, fmt.Errorf("%w: more bytes arrive than the manifest names", ErrDamaged)
	}
	n, err := b.w.Write(p)
	b.left -= int64(n)
	return n, err
}

// isThere reports whether a file has the right content. It also corrects the executable bits.
func (p *pull) isThere(ctx context.Context, f *fileset.File) (_ bool, err error) {
	info, err := p.root.Lstat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, wrongKind(f.Path, info.Mode(), "the fileset has a regular file there; remove it, or choose another directory")
	}
	if info.Size() != f.Size {
		return false, nil
	}
	in, info, err := openRegular(p.root, f.Path)
	if errors.Is(err, fs.ErrPermission) {
		return false, nil // replace an unreadable file
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	address, _, err := digest(ctx, in)
	if err != nil || address != f.Blob {
		return false, err
	}
	if executable(info) == f.Executable {
		return true, nil
	}
	mode := info.Mode().Perm() &^ 0o111
	if f.Executable {
		mode |= mode >> 2 & 0o111 // allow execution to everyone who may read
	}
	return true, in.Chmod(mode)
}

// executable reports whether a file counts as executable in a fileset.
func executable(info fs.FileInfo) bool { return info.Mode()&0o111 != 0 }

// digest reads a file to its end.
func digest(ctx context.Context, r io.Reader) (fileset.Address, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, &cancelable{ctx, r})
	return fileset.Address(h.Sum(nil)), n, err
}

// cancelable is a reader that fails when its context ends.
type cancelable struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
