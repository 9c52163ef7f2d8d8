package blob

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

const (
	// freeEvery is the number of bytes that an upload writes between two checks of the free space. With n concurrent
	// uploads, up to n times as much of the reserve may be used.
	freeEvery = 16 << 20
	// flushEvery is the number of bytes after which an upload makes the kernel begin to write them to the disk, so that
	// the fsync at the end of a large blob does not have to write gigabytes.
	flushEvery = 8 << 20
	// parallelFrom is the number of bytes from which it pays to compute the SHA-1 in another goroutine.
	parallelFrom = 64 << 10
)

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// upload is a stream that is being stored.
type upload struct {
	s       *Dir
	f       *os.File // nil when it is closed
	path    string   // of its file in the directory of uploads; "" if there is none, or it has its final name
	table   string   // of the file with its entry of the SHA-1 table, in the same directory; "" if there is none
	info    Info
	renewed bool // the blob was already stored, and is young again when its file is synced
	size    int64
	charged int64        // bytes of it that are in Store.used
	credit  int64        // bytes of the blob that it will replace: they count already
	late    func() int64 // returns credit, if that costs a request to a Remote; called only when it matters

	h256, h1        hash.Hash // of the first size bytes
	looked, flushed int64     // sizes at the last check of the free space, and at the last hint to write
	broken          bool      // a write has failed, so the file and the digests may not match size
	checkpoint      func() error
}

func newUpload(s *Dir) *upload { return &upload{s: s, h256: sha256.New(), h1: sha1.New()} }

// checkDigest returns ErrDigest if the content does not have the expected digest.
func checkDigest(r Ref, info Info) error {
	if (r.SHA256 != nil && *r.SHA256 != info.Address) || (r.SHA1 != nil && *r.SHA1 != info.SHA1) {
		return fmt.Errorf("%w: expected %s, received %d bytes with %s and SHA-1 %s", ErrDigest, r, info.Size, info.Address, info.SHA1)
	}
	return nil
}

// begin makes the file of an upload.
func (u *upload) begin(ctx context.Context, want Ref) (err error) {
	if u.s.remote == nil {
		u.credit = u.s.credit(ctx, want)
	} else {
		u.late = func() int64 { return u.s.remote.credit(ctx, want) }
	}
	if err := u.room(); err != nil {
		return err
	}
	if u.f, err = os.CreateTemp(u.s.uploads(), tempPrefix+"*"); err != nil {
		return noSpace("begin an upload", err)
	}
	u.path = u.f.Name()
	return nil
}

// receive writes the stream to the file, and computes its digests.
func (u *upload) receive(ctx context.Context, r io.Reader) (Info, error) {
	if err := u.append(ctx, r); err != nil {
		return Info{}, err
	}
	return u.digest(), nil
}

// digest describes the received bytes.
func (u *upload) digest() Info {
	return Info{Address: Address(u.h256.Sum(nil)), SHA1: SHA1(u.h1.Sum(nil)), Size: u.size}
}

// append writes the stream to the end of the file. If it fails, the file has the bytes that were received before the
// error, unless the file is broken.
func (u *upload) append(ctx context.Context, r io.Reader) error {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	for {
		n, end := fill(ctx, r, buf[:])
		if err := u.take(buf[:n]); err != nil {
			return err
		}
		if end == io.EOF {
			return nil
		}
		if end != nil {
			return fmt.Errorf("receive blob: %w", end)
		}
		if u.checkpoint != nil {
			if err := u.checkpoint(); err != nil {
				return err
			}
		}
	}
}

// take writes some bytes, or none if it refuses them.
func (u *upload) take(b []byte) error {
	size := u.size + int64(len(b))
	if size > u.s.o.MaxBytes {
		return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, u.s.o.MaxBytes)
	}
	if size-u.looked >= freeEvery {
		u.looked = size
		if err := u.room(); err != nil {
			return err
		}
	}
	if err := u.charge(size); err != nil {
		return err
	}
	var other sync.WaitGroup
	if len(b) >= parallelFrom {
		other.Go(func() { u.h1.Write(b) })
	} else {
		u.h1.Write(b)
	}
	u.h256.Write(b)
	var err error
	if len(b) > 0 {
		_, err = u.s.h.Write(u.f, b)
	}
	other.Wait()
	if err != nil {
		u.broken = true
		return noSpace("write blob", err)
	}
	if u.size = size; u.size-u.flushed >= flushEvery {
		startFlush(u.f, u.flushed, u.size-u.flushed)
		u.flushed = u.size
	}
	return nil
}

// fill reads until b is full or r ends. It returns exactly the error of r. io.ReadFull would report the end of a stream
// as io.ErrUnexpectedEOF, but net/http uses the same error for a body that was cut off.
func fill(ctx context.Context, r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		if err = ctx.Err(); err == nil {
			var m int
			m, err = r.Read(b[n:])
			n += m
		}
	}
	return n, err
}

// room returns ErrNoSpace if less than the reserve is free.
func (u *upload) room() error {
	free, _, err := u.s.h.Free(u.s.dir)
	if err != nil {
		return err
	}
	if free < uint64(u.s.o.ReserveBytes) {
		return fmt.Errorf("%w: %d bytes are free, and %d are kept free", ErrNoSpace, free, u.s.o.ReserveBytes)
	}
	return nil
}

// noSpace returns an error of the file system. The error is also ErrNoSpace if the disk or the user's share of it is
// full.
func noSpace(verb string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %s: %w", ErrNoSpace, verb, err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// charge counts the bytes of the upload, without the bytes of the blob that they replace.
func (u *upload) charge(size int64) error {
	err := u.chargeNow(size)
	if u.late != nil && errors.Is(err, ErrQuota) {
		u.credit, u.late = u.late(), nil
		err = u.chargeNow(size)
	}
	return err
}

func (u *upload) chargeNow(size int64) error {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	return u.recharge(max(size-u.credit, 0))
}

// recharge makes the upload count as bytes bytes. The caller holds the Store's mutex.
func (u *upload) recharge(bytes int64) error {
	more := bytes - u.charged
	if err := u.s.charge(more); err != nil {
		return err
	}
	u.charged = bytes
	return nil
}

// credit returns the bytes of the blob that an upload will replace, as far as this is known.
func (s *Dir) credit(ctx context.Context, want Ref) int64 {
	if s.remote != nil {
		return s.remote.credit(ctx, want)
	}
	if a, err := s.Resolve(ctx, want); err == nil {
		if info, there, err := s.stat(a); there && err == nil {
			return info.Size()
		}
	}
	return 0
}

// setAge sets the age of the blob to 0. Otherwise its age would count from the last write.
func (u *upload) setAge() error {
	u.info.Changed = u.s.h.Now()
	if err := os.Chtimes(u.path, u.info.Changed, u.info.Changed); err != nil {
		return fmt.Errorf("set the age of the blob: %w", err)
	}
	return nil
}

// renew makes the stored blob young.
func (u *upload) renew() error {
	u.info.Changed, u.renewed = u.s.h.Now(), true
	if err := u.s.setAge(u.info.Address, u.info.Changed); err != nil {
		return fmt.Errorf("renew blob: %w", err)
	}
	return nil
}

// discard removes the files of an upload, unless they have got their names.
func (u *upload) discard() (err error) {
	u.s.mu.Lock()
	u.s.count(-u.charged)
	u.charged = 0
	u.s.mu.Unlock()
	for _, path := range []string{u.path, u.table} {
		if path == "" {
			continue
		}
		err = errors.Join(err, ignoreMissing(u.s.h.Remove(path)))
	}
	u.path, u.table = "", ""
	if u.f != nil {
		err = errors.Join(err, u.f.Close())
		u.f = nil
	}
	return err
}

// ignoreMissing returns nil if a file that was to be removed does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
