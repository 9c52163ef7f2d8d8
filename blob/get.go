package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Blob is a stored blob that is open for reading. One goroutine uses it at a time, except for ReadAt.
//
// Read, ReadAt and Seek give any range. Before the first byte the whole blob is verified, unless that was done in the
// last minutes. WriteTo, which io.Copy uses, is for readers of everything: it reads the blob only once.
type Blob struct {
	Address Address
	Size    int64

	s   *Store
	f   *os.File
	ctx context.Context // ends a verification, which can take minutes
	off int64           // of Read, Seek and WriteTo
}

// Get opens a blob. It returns ErrNotFound, or a *DamagedError if what has the name is not a file or is empty without
// reason. Other damage is found by reading. ctx ends verifications.
func (s *Store) Get(ctx context.Context, a Address) (_ *Blob, err error) {
	info, err := os.Lstat(s.path(a))
	if err == nil && !info.Mode().IsRegular() {
		return nil, &DamagedError{s.path(a), "it is not a regular file"}
	}
	var f *os.File
	if err == nil {
		f, err = open(s.path(a))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, a)
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
	if s.isUnsynced(a) { // asked after the file was opened: see stat
		return nil, fmt.Errorf("%w: %s", ErrNotFound, a)
	}
	b := &Blob{Address: a, Size: info.Size(), s: s, f: f, ctx: ctx}
	if b.Size == 0 {
		if err := b.compare(sha256.Sum256(nil)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Close ends the reading.
func (b *Blob) Close() error { return b.f.Close() }

// Verify returns a *DamagedError unless the blob has the bytes that its address promises. It reads all of them, unless
// that was done in the last minutes.
func (b *Blob) Verify() error {
	id, err := b.id()
	if err != nil {
		return err
	}
	return b.s.verified.once(b.ctx, id, func() error { return b.stream(nil) })
}

// id identifies the file and its state.
func (b *Blob) id() (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(b.f.Fd()), &st); err != nil {
		return fileID{}, fmt.Errorf("look at blob: %w", err)
	}
	return fileID{b.Address, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// stream reads the whole blob, computes its digest, and gives the bytes to out unless that is nil. It gives the last
// ones only if the digest is right.
func (b *Blob) stream(out io.Writer) error {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	h := sha256.New()
	for off := int64(0); off < b.Size; {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		n, err := b.f.ReadAt(buf[:min(bufferBytes, b.Size-off)], off)
		if n == 0 {
			return b.failed(err)
		}
		h.Write(buf[:n])
		if off += int64(n); off == b.Size {
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
func (b *Blob) compare(got Address) error {
	if got != b.Address {
		return &DamagedError{b.f.Name(), fmt.Sprintf("its %d bytes have the digest %s", b.Size, got)}
	}
	return nil
}

// failed is the error of a read. A disk that cannot read a sector reports EIO.
func (b *Blob) failed(err error) error {
	if err == io.EOF || errors.Is(err, unix.EIO) {
		return &DamagedError{b.f.Name(), fmt.Sprintf("its %d bytes cannot be read: %v", b.Size, err)}
	}
	return fmt.Errorf("read blob: %w", err)
}

// WriteTo writes the rest of the blob to w. At the beginning of a blob it verifies while it writes. If the blob is
// damaged, it returns a *DamagedError, and w has got fewer bytes than Size.
func (b *Blob) WriteTo(w io.Writer) (int64, error) {
	from := b.off
	if from == 0 {
		err := b.stream(w)
		return b.off, err
	}
	_, err := io.Copy(w, struct{ io.Reader }{b})
	return b.off - from, err
}

// Read reads on where the last Read, Seek or WriteTo ended.
func (b *Blob) Read(p []byte) (int, error) {
	n, err := b.ReadAt(p, b.off)
	b.off += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// ReadAt reads at an offset, as io.ReaderAt says.
func (b *Blob) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read blob: negative offset %d", off)
	}
	if err := b.Verify(); err != nil {
		return 0, err
	}
	short := int64(len(p)) > b.Size-off
	if short {
		p = p[:max(b.Size-off, 0)]
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

// Seek sets where Read continues, as io.Seeker says.
func (b *Blob) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += b.off
	case io.SeekEnd:
		offset += b.Size
	default:
		return b.off, fmt.Errorf("seek in blob: unknown whence %d", whence)
	}
	if offset < 0 {
		return b.off, fmt.Errorf("seek in blob: negative offset %d", offset)
	}
	b.off = offset
	return offset, nil
}
