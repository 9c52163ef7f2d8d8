package blob

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// freeEvery is how many bytes an upload writes between two looks at the free space. With n uploads at once the
	// reserve may be short of up to n times as much.
	freeEvery = 16 << 20
	// flushEvery is after how many bytes an upload asks the kernel to begin to write them to the disk, so that the fsync
	// at the end of a large blob does not begin with gigabytes to write.
	flushEvery = 8 << 20
	// parallelFrom is the number of bytes from which it pays to compute the SHA-1 in another goroutine.
	parallelFrom = 64 << 10
)

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// upload is a stream on its way into the store.
type upload struct {
	s       *Store
	f       *os.File // in the directory of uploads; nil when it has its final name
	size    int64
	charged int64 // bytes of it that are in Store.used
	credit  int64 // bytes of the blob that it will replace: they need no quota of their own
}

// Put stores a stream and returns when it is durable. If want names a digest, other content is refused with ErrDigest.
// It also returns ErrTooLarge, ErrQuota, ErrNoSpace, the error of ctx or of r; then nothing of the upload stays. A
// blob that was there before stays as it was.
//
// If the blob is there, Put replaces its file. This repairs a damaged file without reading it first, which would cost
// as much; it renews its age; and it makes the blob durable whatever happened to the old file. Readers that have the
// old file open go on with it.
//
// If the quota is nearly used up, a repeated Put needs want: only then is it known in time that nothing is added.
func (s *Store) Put(ctx context.Context, r io.Reader, want Ref) (_ Info, err error) {
	u := &upload{s: s}
	if a, err := s.Resolve(want); err == nil {
		if info, there, err := s.stat(a); there && err == nil {
			u.credit = info.Size()
		}
	}
	if err := u.room(); err != nil {
		return Info{}, err
	}
	if u.f, err = os.CreateTemp(s.uploads(), tempPrefix+"*"); err != nil {
		return Info{}, noSpace("begin an upload", err)
	}
	defer func() { err = errors.Join(err, u.discard()) }()
	info, err := u.receive(ctx, r)
	if err != nil {
		return Info{}, err
	}
	if (want.SHA256 != nil && *want.SHA256 != info.Address) || (want.SHA1 != nil && *want.SHA1 != info.SHA1) {
		return Info{}, fmt.Errorf("%w: expected %s, received %d bytes with %s and SHA-1 %s", ErrDigest, want, info.Size, info.Address, info.SHA1)
	}
	if err := u.commit(&info); err != nil {
		return Info{}, err
	}
	return info, nil
}

// receive writes the stream to the file, and computes its digests.
func (u *upload) receive(ctx context.Context, r io.Reader) (Info, error) {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	h256, h1 := sha256.New(), sha1.New()
	for looked, flushed := int64(0), int64(0); ; {
		n, end := fill(ctx, r, buf[:])
		if end != nil && end != io.EOF {
			return Info{}, fmt.Errorf("receive blob: %w", end)
		}
		if u.size += int64(n); u.size > u.s.o.MaxBytes {
			return Info{}, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, u.s.o.MaxBytes)
		}
		if err := u.charge(); err != nil {
			return Info{}, err
		}
		if u.size-looked >= freeEvery {
			looked = u.size
			if err := u.room(); err != nil {
				return Info{}, err
			}
		}
		var other sync.WaitGroup
		if n >= parallelFrom {
			other.Go(func() { h1.Write(buf[:n]) })
		} else {
			h1.Write(buf[:n])
		}
		h256.Write(buf[:n])
		var err error
		if n > 0 {
			_, err = u.s.h.Write(u.f, buf[:n])
		}
		other.Wait()
		if err != nil {
			return Info{}, noSpace("write blob", err)
		}
		if u.size-flushed >= flushEvery {
			// Only a hint: the fsync reports what fails.
			_ = unix.SyncFileRange(int(u.f.Fd()), flushed, u.size-flushed, unix.SYNC_FILE_RANGE_WRITE)
			flushed = u.size
		}
		if end == io.EOF {
			return Info{Address: Address(h256.Sum(nil)), SHA1: SHA1(h1.Sum(nil)), Size: u.size}, nil
		}
	}
}

// fill reads until b is full or r ends. Its error is exactly that of r: io.ReadFull would report the end of a stream by
// io.ErrUnexpectedEOF, which is also how net/http reports a body that was cut off.
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

// noSpace is an error of the file system, and ErrNoSpace if the disk or the user's share of it is full.
func noSpace(verb string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %s: %w", ErrNoSpace, verb, err)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// charge counts the bytes received so far, except for those of the blob that they replace.
func (u *upload) charge() error {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	return u.recharge(max(u.size-u.credit, 0))
}

// recharge makes the upload count as many bytes. The caller holds the Store's mutex.
func (u *upload) recharge(bytes int64) error {
	more := bytes - u.charged
	if quota := u.s.o.QuotaBytes; quota > 0 && more > 0 && u.s.used+more > quota {
		return fmt.Errorf("%w: %d of %d bytes are used", ErrQuota, u.s.used, quota)
	}
	u.s.used += more
	u.charged = bytes
	return nil
}

// commit makes the upload durable and gives it its name. Until the last fsync reads do not see it. The SHA-1 entry is
// durable before, so that each blob that is visible after a crash has one.
func (u *upload) commit(info *Info) (err error) {
	s, a := u.s, info.Address
	defer s.own(a)()
	info.Changed = s.h.Now()
	if err := os.Chtimes(u.f.Name(), info.Changed, info.Changed); err != nil { // else its age would be that of the last write
		return fmt.Errorf("store blob: %w", err)
	}
	if err := s.h.Sync(u.f); err != nil {
		return noSpace("sync blob", err)
	}
	if err := s.keepSHA1(info.SHA1, a); err != nil {
		return noSpace("store SHA-1 of blob", err)
	}
	old, there, err := s.stat(a)
	if err != nil {
		return err
	}
	info.Existed = there
	oldSize := int64(0)
	if old != nil && old.Mode().IsRegular() {
		oldSize = old.Size()
	}
	s.mu.Lock()
	if err = u.recharge(max(u.size-oldSize, 0)); err == nil && !there {
		s.unsynced[a] = true
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	renamed := false
	err = s.replace(u.f.Name(), s.path(a), func() {
		renamed = true
		s.mu.Lock()
		s.used += u.size - oldSize - u.charged
		s.mu.Unlock()
		u.charged = 0
	})
	if renamed {
		err = errors.Join(err, u.f.Close())
		u.f = nil
	}
	undone := false // a rename that failed may still have happened
	if !renamed && !there {
		_, lookErr := os.Lstat(s.path(a))
		undone = errors.Is(lookErr, fs.ErrNotExist)
	}
	switch {
	case err == nil || undone:
		s.mu.Lock()
		delete(s.unsynced, a)
		s.mu.Unlock()
	case renamed && !there:
		// Nobody may rely on the name. If it cannot be removed, it stays in unsynced, and the next Put tries again.
		err = errors.Join(err, s.remove(a, u.size))
	}
	if err != nil {
		return noSpace("name blob", err)
	}
	return nil
}

// discard removes what an upload has left, unless it has its name.
func (u *upload) discard() error {
	u.s.mu.Lock()
	u.s.used -= u.charged
	u.charged = 0
	u.s.mu.Unlock()
	if u.f == nil {
		return nil
	}
	err := u.s.h.Remove(u.f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, u.f.Close())
}
