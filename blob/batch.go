package blob

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// MaxBatch is the largest number of blobs in a batch: more than the files of the largest fileset. They need about 25 MB
// of memory.
const MaxBatch = 1 << 17

// batch is the Batch of a Dir. Each blob is a file in the directory of uploads until Commit.
type batch struct {
	s    *Dir
	free func() // frees its open files

	mu     sync.Mutex // guards the fields below
	added  map[Address]*upload
	closed bool
	syncs  *syncs
}

// NewBatch begins a batch. Its caller must end it with Commit or Discard.
//
// Commit makes all files durable with one syncfs, and then their names with one fsync of each directory. On some
// systems syncfs may not report that a write has failed (before Linux 5.8, and on file systems other than ext4, XFS and
// Btrfs). There Commit syncs the files individually, many at a time.
func (s *Dir) NewBatch(ctx context.Context) (Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	free, err := s.files.take(ctx, batchFiles)
	if err != nil {
		return nil, err
	}
	syncs, err := s.newSyncs()
	if err != nil {
		free()
		return nil, fmt.Errorf("begin a batch: %w", err)
	}
	s.mu.Lock()
	s.batches++
	s.mu.Unlock()
	return &batch{s: s, free: free, syncs: syncs, added: map[Address]*upload{}}, nil
}

// Add receives a blob of up to 1 MiB into memory. If the store has this blob, Add compares the bytes, which costs less
// than writing them. It renews an intact blob instead of writing it again. A larger blob replaces the file, as in Put.
func (b *batch) Add(ctx context.Context, r io.Reader, want Ref) (_ Info, err error) {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	n, end := fill(ctx, r, buf[:])
	if end != nil && end != io.EOF {
		return Info{}, fmt.Errorf("receive blob: %w", end)
	}
	u := newUpload(b.s)
	defer func() {
		if err != nil {
			err = errors.Join(err, u.discard())
		}
	}()
	if end == io.EOF {
		err = u.receiveSmall(ctx, buf[:n], want)
	} else {
		if err = u.begin(ctx, want); err == nil {
			u.info, err = u.receive(ctx, io.MultiReader(bytes.NewReader(buf[:n]), r))
		}
		if err == nil {
			err = checkDigest(want, u.info)
		}
	}
	if err != nil {
		return Info{}, err
	}
	known, err := b.add(u)
	if err != nil {
		return Info{}, err
	}
	if known {
		u.info.Existed = true
		return u.info, u.discard()
	}
	return u.info, nil
}

// receiveSmall makes an upload of a blob that is in memory. It makes no file if the blob is already stored.
func (u *upload) receiveSmall(ctx context.Context, content []byte, want Ref) error {
	s := u.s
	if u.size = int64(len(content)); u.size > s.o.MaxBytes {
		return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, s.o.MaxBytes)
	}
	u.info = Info{Address: sha256.Sum256(content), SHA1: sha1.Sum(content), Size: u.size, Changed: s.h.Now()}
	if err := checkDigest(want, u.info); err != nil {
		return err
	}
	if s.remote == nil { // a remote blob would have to be downloaded
		if stored, err := u.renewIfStored(content); stored || err != nil {
			return err
		}
	}
	if err := u.begin(ctx, Ref{SHA256: &u.info.Address}); err != nil {
		return err
	}
	if err := u.charge(u.size); err != nil {
		return err
	}
	if _, err := s.h.Write(u.f, content); err != nil {
		return noSpace("write blob", err)
	}
	return nil
}

// renewIfStored reports whether the store has the blob with these bytes. If so, it makes the blob young again, and
// opens its file if the new age must be synced.
func (u *upload) renewIfStored(content []byte) (stored bool, err error) {
	s, a := u.s, u.info.Address
	defer s.own(a)()
	info, there, err := s.stat(a)
	if !there || err != nil || info.Size() != int64(len(content)) {
		return false, err
	}
	f, err := open(s.path(a))
	if err != nil {
		return false, nil // the blob is written again, and the write reports what is wrong
	}
	defer func() {
		if f != u.f {
			err = errors.Join(err, f.Close())
		}
	}()
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	n, err := io.ReadFull(f, buf[:len(content)])
	if err != nil || !bytes.Equal(buf[:n], content) {
		return false, nil
	}
	u.info.Existed, u.info.Changed = true, info.ModTime()
	if s.isYoung(a, info.ModTime()) {
		return true, nil
	}
	u.f = f
	return true, u.renew()
}

// add adds an upload, and hands its files over to be synced. It reports whether the batch already has the blob.
func (b *batch) add(u *upload) (known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false, errBatchEnded
	case b.added[u.info.Address] != nil:
		return true, nil
	case len(b.added) >= b.s.maxBatch:
		return false, fmt.Errorf("%w: it has %d blobs; next step: commit it and begin another", ErrBatchFull, len(b.added))
	}
	if b.s.remote != nil { // Commit copies the file, which need not be durable
		f := u.f
		u.f = nil
		b.added[u.info.Address] = u
		return false, f.Close()
	}
	kept, err := b.s.keepsSHA1(u.info.SHA1, u.info.Address)
	if err != nil {
		return false, err
	}
	if !kept {
		f, err := b.s.writeTemp(u.info.Address.String() + "\n")
		if err != nil {
			return false, noSpace("write SHA-1 of blob", err)
		}
		u.table = f.Name()
		if err := b.syncs.add(f); err != nil {
			return false, err
		}
	}
	if u.path != "" {
		if err := u.setAge(); err != nil {
			return false, err
		}
	}
	if f := u.f; f != nil {
		u.f = nil
		if err := b.syncs.add(f); err != nil {
			return false, err
		}
	}
	b.added[u.info.Address] = u
	return false, nil
}

// Commit makes all blobs durable, and then all visible at once.
func (b *batch) Commit(ctx context.Context) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBatchEnded
	}
	defer func() { err = errors.Join(err, b.end()) }()
	all := slices.SortedFunc(maps.Values(b.added), func(u, v *upload) int {
		return bytes.Compare(u.info.Address[:], v.info.Address[:])
	})
	if b.s.remote != nil {
		return b.s.remote.keepAll(ctx, all)
	}
	for _, u := range all { // blobs that were added long ago have grown old
		if !b.s.isRecent(u.info.Changed) {
			if err := b.renew(u); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.syncs.wait(); err != nil {
		return noSpace("sync batch", err)
	}
	for _, u := range all {
		defer b.s.own(u.info.Address)()
	}
	if err := b.s.publish(ctx, all); err != nil {
		return err
	}
	var renewed []Address
	for _, u := range all {
		if u.renewed {
			renewed = append(renewed, u.info.Address)
		}
	}
	b.s.ageIsDurable(renewed)
	return nil
}

// renew gives a file the age 0 and hands it over to be synced.
func (b *batch) renew(u *upload) error {
	path, set := u.path, u.setAge
	if path == "" {
		path, set = b.s.path(u.info.Address), u.renew
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return u.deleted()
	}
	if err != nil {
		return fmt.Errorf("renew blob: %w", err)
	}
	if err := set(); err != nil {
		return errors.Join(err, f.Close())
	}
	return b.syncs.add(f)
}

// Discard ends the batch and removes the files that it has written. After Commit it does nothing.
func (b *batch) Discard() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	return b.end()
}

// end removes the files that Commit has not given a name, and frees everything.
func (b *batch) end() error {
	b.closed = true
	err := b.syncs.end()
	var left error
	for _, u := range b.added {
		left = first(left, u.discard()) // one error is enough
	}
	b.added = nil
	b.free()
	b.s.mu.Lock()
	b.s.batches--
	b.s.mu.Unlock()
	return errors.Join(err, left)
}
