package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// file is a Blob of a directory.
type file struct {
	info Info
	s    *Dir
	f    *os.File
	free func()          // frees the open file
	ctx  context.Context // ends a verification, which can take minutes
	off  int64           // of Read, Seek and WriteTo
	// known is the state of the file when it was verified for this Blob.
	known atomic.Pointer[fileID]
}

// Get opens a blob. It returns ErrNotFound, or a *DamagedError if the name does not belong to a file or if the file is
// empty without reason. Reading finds other damage. ctx ends verifications.
func (s *Dir) Get(ctx context.Context, a Address) (_ Blob, err error) {
	free, err := s.files.take(ctx, readFiles)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	info, err := os.Lstat(s.path(a))
	if err == nil && !info.Mode().IsRegular() {
		return nil, &DamagedError{s.path(a), "it is not a regular file"}
	}
	var f *os.File
	if err == nil {
		f, err = open(s.path(a))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(a)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if info, err = f.Stat(); err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	if s.isUnsynced(a) { // after the file was opened: see stat
		return nil, notFound(a)
	}
	b := &file{info: infoOf(a, info), s: s, f: f, free: sync.OnceFunc(free), ctx: ctx}
	if b.info.Size == 0 {
		if err := b.compare(sha256.Sum256(nil)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Info describes the blob.
func (b *file) Info() Info { return b.info }

// Close ends the reading.
func (b *file) Close() error {
	defer b.free()
	return b.f.Close()
}

// Verify returns a *DamagedError unless the blob has the bytes that its address promises. It reads all of them, unless
// the blob was verified in the last minutes or for this Blob. After 10 seconds it returns ErrVerifying.
func (b *file) Verify() error { return b.verify(b.s.verified.patience) }

// verify verifies the blob, and waits for that for at most patience, or until it is done if patience is 0.
func (b *file) verify(patience time.Duration) error {
	id, named, err := idOf(b.info.Address, b.f)
	if err != nil {
		return fmt.Errorf("look at blob: %w", err)
	}
	if known := b.known.Load(); known != nil {
		// The loss of the last name changes ctime, and nobody opens a file without a name to change it.
		if !named {
			id.ctime = known.ctime
		}
		if id == *known {
			return nil
		}
	}
	err = b.s.verified.share(b.ctx, id, patience, func() error { return b.stream(nil) }, b.another)
	if err == nil {
		b.known.Store(&id)
	}
	return err
}

// another returns a function that verifies the blob, even after this Blob was closed.
func (b *file) another() (func(context.Context) error, error) {
	f, err := duplicate(b.f)
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return func(ctx context.Context) error {
		other := &file{info: b.info, s: b.s, f: f, ctx: ctx}
		return errors.Join(other.stream(nil), f.Close())
	}, nil
}

// stream reads the whole blob, computes its digest, and writes the bytes to out unless that is nil. It writes the last
// bytes only if the digest is right.
func (b *file) stream(out io.Writer) error {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	for off := int64(0); off < b.info.Size; {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		n, err := b.f.ReadAt(buf[:min(bufferBytes, b.info.Size-off)], off)
		if n == 0 {
			return b.failed(err)
		}
		h.Write(buf[:n])
		if off += int64(n); off == b.info.Size {
			if err := b.compare(Address(h.Sum(nil))); err != nil {
				return err
			}
		}
		if out == nil {
			continue
		}
		m, err := out.Write(buf[:n])
		b.off += int64(m)
		if err != nil {
			return err
		}
	}
	return nil
}

// compare returns a *DamagedError if the bytes have another digest.
func (b *file) compare(got Address) error {
	if got != b.info.Address {
		return &DamagedError{b.f.Name(), fmt.Sprintf("its %d bytes have the digest %s", b.info.Size, got)}
	}
	return nil
}

// failed is the error of a read. A disk that cannot read a sector reports EIO.
func (b *file) failed(err error) error {
	if err == io.EOF || errors.Is(err, syscall.EIO) {
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			err = of.Err // the reason does not name the file: see Detail
		}
		return &DamagedError{b.f.Name(), fmt.Sprintf("its %d bytes cannot be read: %v", b.info.Size, err)}
	}
	return fmt.Errorf("read blob: %w", err)
}

// WriteTo writes the rest of the blob to w. At the beginning of a blob it verifies while it writes. If the blob is
// damaged, it returns a *DamagedError, and w has got fewer bytes than Size.
func (b *file) WriteTo(w io.Writer) (int64, error) {
	from := b.off
	if from == 0 {
		err := b.stream(w)
		return b.off, err
	}
	_, err := io.Copy(w, struct{ io.Reader }{b})
	return b.off - from, err
}

// Read continues at the end of the last Read, Seek or WriteTo.
func (b *file) Read(p []byte) (int, error) {
	n, err := b.ReadAt(p, b.off)
	b.off += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt reads at an offset, as io.ReaderAt describes.
func (b *file) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read blob: negative offset %d", off)
	}
	if err := b.verify(0); err != nil {
		return 0, err
	}
	short := int64(len(p)) > b.info.Size-off
	if short {
		p = p[:max(b.info.Size-off, 0)]
	}
	n, err := 0, error(nil)
	if len(p) > 0 {
		n, err = b.f.ReadAt(p, off)
	}
	switch {
	case n < len(p):
		return n, b.failed(err)
	case short:
		return n, io.EOF
	}
	return n, nil
}

// Seek sets the offset of the next Read, as io.Seeker describes.
func (b *file) Seek(offset int64, whence int) (int64, error) {
	to, err := seek(b.off, b.info.Size, offset, whence)
	if err == nil {
		b.off = to
	}
	return b.off, err
}

// seek returns the new offset of a Seek.
func seek(off, size, offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += off
	case io.SeekEnd:
		offset += size
	default:
		return 0, fmt.Errorf("seek in blob: unknown whence %d", whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek in blob: negative offset %d", offset)
	}
	return offset, nil
}
