package blob

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
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

// incoming is a stream that is being stored. Its File has the paths of its files in the directory of uploads.
type incoming struct {
	File
	s       *Store
	name    string // of the client
	client  *client
	f       *os.File // nil when it is closed
	renewed bool     // the blob was already stored, and is young again when its file is synced
	size    int64
	charged int64        // bytes of it that count
	credit  int64        // bytes of the blob that it will replace: they count already
	late    func() int64 // returns credit; called only when it matters

	h256, h1        hash.Hash // of the first size bytes
	looked, flushed int64     // sizes at the last check of the free space, and at the last hint to write
	broken          bool      // a write has failed, so the file and the digests may not match size
	checkpoint      func() error
}

func (s *Store) newIncoming(name string, c *client) *incoming {
	return &incoming{s: s, name: name, client: c, h256: sha256.New(), h1: sha1.New()}
}

func (u *incoming) key() Key { return blobKey(u.name, u.Address) }

// checkDigest returns ErrDigest if the content does not have the expected digest.
func checkDigest(r Ref, info Info) error {
	if (r.SHA256 != nil && *r.SHA256 != info.Address) || (r.SHA1 != nil && *r.SHA1 != info.SHA1) {
		return fmt.Errorf("%w: expected %s, received %d bytes with %s and SHA-1 %s", ErrDigest, r, info.Size, info.Address, info.SHA1)
	}
	return nil
}

// begin makes the file of an upload.
func (u *incoming) begin(ctx context.Context, want Ref) (err error) {
	u.late = func() int64 { return u.s.credit(ctx, u.name, want) }
	if err := u.s.room(); err != nil {
		return err
	}
	if u.f, err = os.CreateTemp(u.s.uploadsDir(), tempPrefix+"*"); err != nil {
		return noSpace("begin an upload", err)
	}
	u.Path = u.f.Name()
	return nil
}

// receive writes the stream to the file, and computes its digests.
func (u *incoming) receive(ctx context.Context, r io.Reader, want Ref) error {
	if err := u.append(ctx, r); err != nil {
		return err
	}
	u.Info = u.digest()
	return checkDigest(want, u.Info)
}

// digest describes the received bytes.
func (u *incoming) digest() Info {
	return Info{Address: Address(u.h256.Sum(nil)), SHA1: SHA1(u.h1.Sum(nil)), Size: u.size}
}

// append writes the stream to the end of the file. If it fails, the file has the bytes that were received before the
// error, unless the file is broken.
func (u *incoming) append(ctx context.Context, r io.Reader) error {
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
func (u *incoming) take(b []byte) error {
	size := u.size + int64(len(b))
	if size > u.s.o.MaxBytes {
		return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, u.s.o.MaxBytes)
	}
	if size-u.looked >= freeEvery {
		u.looked = size
		if err := u.s.room(); err != nil {
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
func (s *Store) room() error {
	free, _, err := s.h.Free(s.dir)
	if err != nil {
		return err
	}
	if free < uint64(s.o.ReserveBytes) {
		return fmt.Errorf("%w: %d bytes are free, and %d are kept free", ErrNoSpace, free, s.o.ReserveBytes)
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

// charge counts the bytes of the upload. If they do not fit, it no longer counts the bytes of the blob that they
// replace.
func (u *incoming) charge(size int64) error {
	err := u.recharge(max(size-u.credit, 0))
	if u.late != nil && errors.Is(err, ErrQuota) {
		u.credit, u.late = u.late(), nil
		err = u.recharge(max(size-u.credit, 0))
	}
	return err
}

// recharge makes the upload count as bytes bytes, or returns ErrQuota and changes nothing.
func (u *incoming) recharge(bytes int64) error {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if err := u.s.fits(u.client, bytes-u.charged); err != nil {
		return err
	}
	u.s.count(u.client, bytes-u.charged)
	u.charged = bytes
	return nil
}

// setAge sets the age of the blob to 0. Otherwise its age would count from the last write.
func (u *incoming) setAge() error {
	u.Changed = u.s.h.Now()
	if err := os.Chtimes(u.Path, u.Changed, u.Changed); err != nil {
		return fmt.Errorf("set the age of the blob: %w", err)
	}
	return nil
}

// discard removes the files of an upload, unless they have got their names.
func (u *incoming) discard() (err error) {
	u.s.mu.Lock()
	u.s.count(u.client, -u.charged)
	u.charged = 0
	u.s.mu.Unlock()
	for _, path := range []*string{&u.Path, &u.EntryPath} {
		if *path != "" {
			err = errors.Join(err, ignoreMissing(u.s.h.Remove(*path)))
			*path = ""
		}
	}
	if u.f != nil {
		err = errors.Join(err, u.f.Close())
		u.f = nil
	}
	return err
}

// Put stores a stream and returns when it is durable. If want names a digest, other content is refused with ErrDigest.
// It also returns ErrTooLarge, ErrQuota, ErrNoSpace, ErrFiles, or the error of ctx or of r. After an error the upload
// leaves nothing, and an older blob stays unchanged; but a bucket whose answer was lost may have the blob.
//
// If the blob is already stored, Put replaces its file. This repairs a damaged file without reading it first, which
// would cost as much. It renews the blob's age, and makes the blob durable in any state of the old file. Readers that
// have the old file open continue with it.
//
// If the quota is nearly used up, a repeated Put needs want: only then does the store know in time that no bytes are
// added.
func (s *Store) Put(ctx context.Context, client string, r io.Reader, want Ref) (_ Info, err error) {
	c, leave, err := s.enter(ctx, client)
	if err != nil {
		return Info{}, err
	}
	defer leave()
	free, err := s.files.take(ctx, uploadFiles)
	if err != nil {
		return Info{}, err
	}
	defer free()
	u := s.newIncoming(client, c)
	defer func() { err = errors.Join(err, u.discard()) }()
	if err := u.begin(ctx, want); err != nil {
		return Info{}, err
	}
	if err := u.receive(ctx, r, want); err != nil {
		return Info{}, err
	}
	if err := s.commit(ctx, client, []*incoming{u}); err != nil {
		return Info{}, err
	}
	return u.Info, nil
}

// commit makes received streams durable and visible, as Backend.Put does. The files of several ones are durable
// already. A stream without a file belongs to a blob that is already stored; it only needs its SHA-1.
func (s *Store) commit(ctx context.Context, client string, all []*incoming) error {
	release, err := s.ownAll(ctx, client, all)
	if err != nil {
		return err
	}
	defer release()
	files := make([]*File, len(all))
	counted := make([]int64, len(all)) // bytes of the blobs that are replaced; -1: the blob is not written
	for i, u := range all {
		files[i] = &u.File
		if u.f != nil && !s.remote { // a file that is copied need not be durable
			if err := u.setAge(); err != nil {
				return err
			}
			if err := s.h.Sync(u.f); err != nil {
				return noSpace("sync blob", err)
			}
		}
		old, err := s.backend.Stat(ctx, u.key())
		if err := ignoreNotFound(err); err != nil {
			return err
		}
		u.Existed = err == nil && !old.Hidden
		u.HasSHA1 = u.Existed && old.SHA1 == u.SHA1
		if u.Path == "" {
			if !u.Existed {
				return u.deleted()
			}
			counted[i] = -1
			continue
		}
		counted[i] = s.counted(u.key(), old.Size)
		if err := u.recharge(max(u.size-counted[i], 0)); err != nil {
			return err
		}
	}
	if err := s.backend.Put(ctx, client, files); err != nil {
		for i, u := range all {
			if counted[i] >= 0 {
				s.settle(u.key(), counted[i], u.size)
			}
		}
		return err
	}
	for i, u := range all {
		if counted[i] >= 0 {
			s.countAs(u.key(), counted[i]+u.charged, u.size)
			u.charged = 0
		}
	}
	for _, u := range all {
		if u.Path != "" { // it was copied
			if err := s.h.Remove(u.Path); err != nil {
				return fmt.Errorf("remove the copied file of a blob: %w", err)
			}
			u.Path = ""
		}
	}
	return nil
}

// deleted is the error for a blob that was deleted after it was added to a batch. The batch has not written such a
// blob, because the store had it.
func (u *incoming) deleted() error {
	return fmt.Errorf("%w: %s was deleted after it had been added to the batch; next step: add everything to a new batch", ErrNotFound, u.Address)
}
