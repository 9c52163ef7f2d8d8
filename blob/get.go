package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readTries is how often a read that breaks off is continued, and readRest the wait before each try.
	readTries = 3
	readRest  = 300 * time.Millisecond
	// windowBytes is the number of bytes that Read requests at a time. A reader that stops early costs no more than
	// that.
	windowBytes = 8 << 20
	// smallBytes is the size up to which a blob in a bucket is read without a buffer of 1 MiB.
	smallBytes = 128 << 10
)

// Blob is a stored blob that is open for reading. One goroutine uses it at a time, except for ReadAt.
//
// Read, ReadAt and Seek give any range. Before they return the first byte, they verify the whole blob, unless it was
// verified in the last minutes. WriteTo, which io.Copy uses, is for readers of everything: it reads the blob only once.
// If the blob is damaged, they return a *DamagedError, and the reader has got fewer bytes than the size of the blob.
type Blob struct {
	s       *Store
	object  Object
	content Content
	free    func()              // frees the open file, or the connection
	ctx     context.Context     // ends reads, and a verification, which can take minutes
	off     int64               // of Read, Seek and WriteTo
	known   atomic.Pointer[any] // the version that was verified for this Blob

	window io.ReadCloser // of Read: it ends at until, and was read to at. nil: none
	at     int64
	until  int64

	mu    sync.Mutex // guards small, since several goroutines may call ReadAt
	small []byte     // all bytes of a small blob in a bucket, once it is verified: they cost no second request
}

// Get opens a blob of the client, or a shared one. It returns ErrNotFound, or a *DamagedError if the name does not
// belong to a file or if the blob is empty without reason. Reading finds other damage. ctx ends reads.
func (s *Store) Get(ctx context.Context, client string, a Address) (b *Blob, err error) {
	free, err := s.files.take(ctx, readFiles)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	var content Content
	err = s.either(client, func(client string) (err error) { content, err = s.backend.Open(ctx, blobKey(client, a)); return err })
	if err != nil {
		return nil, err
	}
	b = &Blob{s: s, object: content.Object(), content: content, free: sync.OnceFunc(free), ctx: ctx}
	if b.object.Size == 0 {
		if err := b.stream(nil); err != nil {
			return nil, errors.Join(err, content.Close())
		}
	}
	return b, nil
}

// Info describes the blob.
func (b *Blob) Info() Info { return b.object.plain() }

// Close ends the reading.
func (b *Blob) Close() error {
	defer b.free()
	return errors.Join(b.closeWindow(), b.content.Close())
}

func (b *Blob) closeWindow() error {
	if b.window == nil {
		return nil
	}
	window := b.window
	b.window = nil
	return window.Close()
}

// Verify returns a *DamagedError unless the blob has the bytes that its address promises. It reads all of them, unless
// the blob was verified in the last minutes or for this Blob. If the blob is long, it may return ErrVerifying after 10
// seconds. The verification continues, and the next call waits for it again.
func (b *Blob) Verify() error { return b.verify(b.s.verified.patience) }

// verify verifies the blob, and waits for that for at most patience, or until it is done if patience is 0.
func (b *Blob) verify(patience time.Duration) error {
	if b.kept() != nil {
		return nil
	}
	version, err := b.content.Version()
	if err != nil {
		return err
	}
	if known := b.known.Load(); known != nil && *known == version {
		return nil
	}
	if b.s.remote && b.object.Size <= bufferBytes {
		err = b.stream(nil) // it keeps the bytes
	} else {
		err = b.s.verified.share(b.ctx, version, b.object.Size, patience, func() error { return b.stream(nil) }, b.another)
	}
	if err == nil {
		b.known.Store(&version)
	}
	return err
}

// another returns a function that verifies the blob, even after this Blob was closed.
func (b *Blob) another() (func(context.Context) error, error) {
	content, err := b.content.Again()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		other := &Blob{s: b.s, object: b.object, content: content, ctx: ctx}
		return errors.Join(other.stream(nil), content.Close())
	}, nil
}

// kept returns the bytes of a small blob, or nil.
func (b *Blob) kept() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.small
}

func (b *Blob) keep(all []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.small = all
}

// stream reads the whole blob, computes its digest, and writes the bytes to out unless that is nil. It writes the last
// bytes only if the digest is right.
func (b *Blob) stream(out io.Writer) error {
	var buf []byte
	small := b.s.remote && b.object.Size <= smallBytes // many are read at a time
	if small {
		buf = make([]byte, b.object.Size)
	} else {
		pooled := buffers.Get().(*[bufferBytes]byte)
		defer buffers.Put(pooled)
		buf = pooled[:]
	}
	h := sha256.New()
	from := &continued{b: b}
	defer from.close()
	for off := int64(0); ; {
		n, err := io.ReadFull(from, buf[:min(bufferBytes, b.object.Size-off)])
		if err != nil {
			return err
		}
		h.Write(buf[:n])
		off += int64(n)
		last := off == b.object.Size
		if last {
			if got := Address(h.Sum(nil)); got != b.object.Address {
				return &DamagedError{b.object.Place, fmt.Sprintf("its %d bytes have the digest %s", b.object.Size, got)}
			}
		}
		if last && off == int64(n) && b.s.remote {
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

// continued reads a blob from its first byte to its last. It continues a download that breaks off.
type continued struct {
	b     *Blob
	body  io.ReadCloser
	off   int64
	tries int
}

func (c *continued) Read(p []byte) (int, error) {
	for {
		err := c.b.ctx.Err()
		if err == nil && c.body == nil {
			c.body, err = c.b.content.Range(c.b.ctx, c.off, c.b.object.Size-c.off)
		}
		if err != nil {
			return 0, err // the backend has tried several times
		}
		n, err := c.body.Read(p)
		c.off += int64(n)
		switch {
		case n > 0:
			c.tries = 0
			return n, nil
		case err == nil:
			continue
		}
		c.close()
		if c.tries++; c.tries > readTries || !errors.Is(err, ErrUnavailable) {
			return 0, err
		}
		select {
		case <-time.After(readRest):
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
func (b *Blob) WriteTo(w io.Writer) (int64, error) {
	from := b.off
	if from == 0 && b.kept() == nil {
		err := b.stream(w)
		return b.off, err
	}
	_, err := io.Copy(w, struct{ io.Reader }{b})
	return b.off - from, err
}

// Read continues at the end of the last Read, Seek or WriteTo.
func (b *Blob) Read(p []byte) (n int, err error) {
	if err := b.verify(0); err != nil {
		return 0, err
	}
	left := b.object.Size - b.off
	if left <= 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), left)]
	defer func() { b.off += int64(n) }()
	if small := b.kept(); small != nil {
		return copy(p, small[b.off:]), nil
	}
	for range readTries {
		if b.window == nil || b.at != b.off || b.at == b.until {
			if err := b.closeWindow(); err != nil {
				return 0, err
			}
			size := min(windowBytes, left)
			if b.window, err = b.content.Range(b.ctx, b.off, size); err != nil {
				b.window = nil
				return 0, err
			}
			b.at, b.until = b.off, b.off+size
		}
		n, err = b.window.Read(p[:min(int64(len(p)), b.until-b.at)])
		b.at += int64(n)
		if n > 0 || len(p) == 0 {
			return n, nil
		}
		b.at = -1 // it broke off
		if !errors.Is(err, ErrUnavailable) {
			break
		}
	}
	return 0, err
}

// ReadAt reads at an offset, as io.ReaderAt describes.
func (b *Blob) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read blob: negative offset %d", off)
	}
	if err := b.verify(0); err != nil {
		return 0, err
	}
	short := int64(len(p)) > b.object.Size-off
	if short {
		p = p[:max(b.object.Size-off, 0)]
	}
	n := 0
	if small := b.kept(); small != nil && len(p) > 0 {
		n = copy(p, small[off:])
	} else if len(p) > 0 {
		body, err := b.content.Range(b.ctx, off, int64(len(p)))
		if err != nil {
			return 0, err
		}
		n, err = io.ReadFull(body, p)
		if err = errors.Join(err, body.Close()); err != nil {
			return n, err
		}
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// Seek sets the offset of the next Read, as io.Seeker describes.
func (b *Blob) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += b.off
	case io.SeekEnd:
		offset += b.object.Size
	default:
		return b.off, fmt.Errorf("seek in blob: unknown whence %d", whence)
	}
	if offset < 0 {
		return b.off, fmt.Errorf("seek in blob: negative offset %d", offset)
	}
	b.off = offset
	return offset, nil
}
