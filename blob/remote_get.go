package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// remoteTries is how often a read that breaks off is continued, and remoteRest the wait before each try.
	remoteTries = 3
	remoteRest  = 300 * time.Millisecond
	// windowBytes is the number of bytes that Read requests at a time. A reader that stops early costs no more than
	// that.
	windowBytes = 8 << 20
	// smallBytes is the size up to which a blob is read without a buffer of 1 MiB.
	smallBytes = 128 << 10
)

// remoteBlob is a Blob of a Remote.
type remoteBlob struct {
	info  RemoteInfo
	r     *remoteStore
	ctx   context.Context
	free  func()      // frees its connection, which counts as an open file
	off   int64       // of Read, Seek and WriteTo
	known atomic.Bool // it was verified for this Blob

	open  io.ReadCloser // of Read: a window that ends at until and was read to at. nil: none
	at    int64
	until int64

	mu    sync.Mutex // guards small, since several goroutines may call ReadAt
	small []byte     // all bytes of a small blob, once it is verified: they cost no second request
}

// Info describes the blob.
func (b *remoteBlob) Info() Info { return b.info.plain() }

// Close ends the reading.
func (b *remoteBlob) Close() error {
	defer b.free()
	return b.closeWindow()
}

func (b *remoteBlob) closeWindow() error {
	if b.open == nil {
		return nil
	}
	open := b.open
	b.open = nil
	return open.Close()
}

// id identifies the version of the blob.
func (b *remoteBlob) id() fileID {
	h := fnv.New64a()
	h.Write([]byte(b.info.Version))
	at := b.info.Changed.UnixNano()
	return fileID{address: b.info.Address, inode: h.Sum64(), size: b.info.Size, mtime: at, ctime: at}
}

// Verify downloads the whole blob, unless it was verified in the last minutes or for this Blob. It returns a
// *DamagedError unless the blob has the bytes that its address promises. After 10 seconds it returns ErrVerifying.
func (b *remoteBlob) Verify() error { return b.verify(b.r.verified.patience) }

// verify verifies the blob, and waits for that for at most patience, or until it is done if patience is 0.
func (b *remoteBlob) verify(patience time.Duration) error {
	if b.kept() != nil || b.known.Load() {
		return nil
	}
	if b.info.Size <= bufferBytes {
		return b.stream(nil)
	}
	err := b.r.verified.share(b.ctx, b.id(), patience, func() error { return b.stream(nil) }, b.another)
	if err == nil {
		b.known.Store(true)
	}
	return err
}

// another returns a function that verifies the blob, even after this Blob was closed.
func (b *remoteBlob) another() (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		return (&remoteBlob{info: b.info, r: b.r, ctx: ctx, free: func() {}}).stream(nil)
	}, nil
}

// kept returns the bytes of a small blob, or nil.
func (b *remoteBlob) kept() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.small
}

func (b *remoteBlob) keep(all []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.small = all
}

// stream downloads the whole blob, computes its digest, and writes the bytes to out unless that is nil. It writes the
// last bytes only if the digest is right. It continues a download that breaks off.
func (b *remoteBlob) stream(out io.Writer) error {
	var buf []byte
	small := b.info.Size <= smallBytes // many are read at a time
	if small {
		buf = make([]byte, b.info.Size)
	} else {
		pooled := buffers.Get().(*[bufferBytes]byte)
		defer buffers.Put(pooled)
		buf = pooled[:]
	}
	h := sha256.New()
	from := &continued{b: b}
	defer from.close()
	for off := int64(0); ; {
		n, err := io.ReadFull(from, buf[:min(bufferBytes, b.info.Size-off)])
		if err != nil {
			return err
		}
		h.Write(buf[:n])
		off += int64(n)
		last := off == b.info.Size
		if got := Address(h.Sum(nil)); last && got != b.info.Address {
			return &DamagedError{b.info.Place, fmt.Sprintf("its %d bytes have the digest %s", b.info.Size, got)}
		}
		if last && off == int64(n) {
			if !small {
				buf = slices.Clone(buf[:n])
			}
			b.keep(buf)
		}
		if out != nil {
			m, err := out.Write(buf[:n])
			b.off += int64(m)
			if err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// continued reads a blob from its first byte to its last, in as many requests as necessary.
type continued struct {
	b     *remoteBlob
	body  io.ReadCloser
	off   int64
	tries int
}

func (c *continued) Read(p []byte) (int, error) {
	for {
		err := c.b.ctx.Err()
		if err == nil && c.body == nil {
			c.body, err = c.b.r.remote.Read(c.b.ctx, c.b.info, c.off, c.b.info.Size-c.off)
		}
		if err != nil {
			return 0, err // the remote has tried several times
		}
		n, err := c.body.Read(p)
		c.off += int64(n)
		switch {
		case n > 0:
			c.tries = 0
			return n, nil
		case err == io.EOF && c.off == c.b.info.Size:
			return 0, io.EOF
		case err == nil:
			continue
		}
		c.close()
		if c.tries++; c.tries > remoteTries {
			return 0, fmt.Errorf("%w: read %s at byte %d: %w", ErrUnavailable, c.b.info.Place, c.off, err)
		}
		select {
		case <-time.After(remoteRest):
		case <-c.b.ctx.Done():
		}
	}
}

func (c *continued) close() {
	if c.body != nil {
		c.body.Close() // it was only read
		c.body = nil
	}
}

// WriteTo writes the rest of the blob to w. At the beginning of a blob it verifies while it writes. If the blob is
// damaged, it returns a *DamagedError, and w has got fewer bytes than Size.
func (b *remoteBlob) WriteTo(w io.Writer) (int64, error) {
	from := b.off
	if from == 0 && b.kept() == nil {
		err := b.stream(w)
		return b.off, err
	}
	_, err := io.Copy(w, struct{ io.Reader }{b})
	return b.off - from, err
}

// Read continues at the end of the last Read, Seek or WriteTo.
func (b *remoteBlob) Read(p []byte) (n int, err error) {
	if err := b.verify(0); err != nil {
		return 0, err
	}
	left := b.info.Size - b.off
	if left <= 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), left)]
	defer func() { b.off += int64(n) }()
	if small := b.kept(); small != nil {
		return copy(p, small[b.off:]), nil
	}
	for range remoteTries {
		if b.open == nil || b.at != b.off || b.at == b.until {
			if err := b.closeWindow(); err != nil {
				return 0, err
			}
			size := min(windowBytes, left)
			if b.open, err = b.r.remote.Read(b.ctx, b.info, b.off, size); err != nil {
				b.open = nil
				return 0, err
			}
			b.at, b.until = b.off, b.off+size
		}
		n, err = b.open.Read(p[:min(int64(len(p)), b.until-b.at)])
		b.at += int64(n)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		b.at = -1 // it broke off
	}
	return 0, fmt.Errorf("%w: read %s at byte %d: %w", ErrUnavailable, b.info.Place, b.off, err)
}

// ReadAt reads at an offset, as io.ReaderAt describes.
func (b *remoteBlob) ReadAt(p []byte, off int64) (int, error) {
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
	switch {
	case len(p) == 0:
	case b.kept() != nil:
		n = copy(p, b.kept()[off:])
	default:
		var body io.ReadCloser
		if body, err = b.r.remote.Read(b.ctx, b.info, off, int64(len(p))); err != nil {
			return 0, err
		}
		n, err = io.ReadFull(body, p)
		if err = errors.Join(err, body.Close()); err != nil {
			return n, fmt.Errorf("%w: read %s at byte %d: %w", ErrUnavailable, b.info.Place, off+int64(n), err)
		}
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// Seek sets the offset of the next Read, as io.Seeker describes.
func (b *remoteBlob) Seek(offset int64, whence int) (int64, error) {
	to, err := seek(b.off, b.info.Size, offset, whence)
	if err == nil {
		b.off = to
	}
	return b.off, err
}
