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
	"os"
	"slices"
	"sync"
)

// MaxBatch is the largest number of blobs in a batch: more than the files of the largest fileset. They need about 25 MB
// of memory.
const MaxBatch = 1 << 17

// Batch puts many blobs for the cost of a few. Several goroutines may call Add concurrently, but not together with
// Commit or Discard. Each blob is a file in the directory of uploads until Commit.
type Batch struct {
	s      *Store
	name   string // of the client
	client *client
	free   func() // frees its open files, and leaves the client

	mu     sync.Mutex // guards the fields below
	added  map[Address]*incoming
	closed bool
	syncs  *syncs
}

// NewBatch begins a batch. Its caller must end it with Commit or Discard.
//
// Commit makes all files durable with one syncfs, and then their names with one fsync of each directory. On some
// systems syncfs may not report that a write has failed (before Linux 5.8, and on file systems other than ext4, XFS and
// Btrfs). There Commit syncs the files individually, many at a time.
func (s *Store) NewBatch(ctx context.Context, client string) (_ *Batch, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, leave, err := s.enter(ctx, client)
	if err != nil {
		return nil, err
	}
	free, err := s.files.take(ctx, batchFiles)
	if err != nil {
		leave()
		return nil, err
	}
	b := &Batch{s: s, name: client, client: c, free: func() { free(); leave() }, added: map[Address]*incoming{}}
	if b.syncs, err = s.newSyncs(); err != nil {
		b.free()
		return nil, fmt.Errorf("begin a batch: %w", err)
	}
	return b, nil
}

// Add receives a blob as Put does, with the same errors, and ErrBatchFull. After a failed Add the batch continues
// without this blob. Info.Existed reports that the store or the batch had the blob.
//
// Add receives a blob of up to 1 MiB into memory. If the store has this blob, Add compares the bytes, which costs less
// than writing them. It renews an intact blob instead of writing it again. A larger blob replaces the file, as in Put.
func (b *Batch) Add(ctx context.Context, r io.Reader, want Ref) (_ Info, err error) {
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	n, end := fill(ctx, r, buf[:])
	if end != nil && end != io.EOF {
		return Info{}, fmt.Errorf("receive blob: %w", end)
	}
	u := b.s.newIncoming(b.name, b.client)
	defer func() {
		if err != nil {
			err = errors.Join(err, u.discard())
		}
	}()
	if end == io.EOF {
		err = u.receiveSmall(ctx, buf[:n], want)
	} else if err = u.begin(ctx, want); err == nil {
		err = u.receive(ctx, io.MultiReader(bytes.NewReader(buf[:n]), r), want)
	}
	if err != nil {
		return Info{}, err
	}
	known, err := b.add(ctx, u)
	if err != nil {
		return Info{}, err
	}
	if known {
		u.Existed = true
		return u.Info, u.discard()
	}
	return u.Info, nil
}

// receiveSmall makes an upload of a blob that is in memory. It makes no file if the blob is already stored.
func (u *incoming) receiveSmall(ctx context.Context, content []byte, want Ref) error {
	s := u.s
	if u.size = int64(len(content)); u.size > s.o.MaxBytes {
		return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, s.o.MaxBytes)
	}
	u.Info = Info{Address: sha256.Sum256(content), SHA1: sha1.Sum(content), Size: u.size, Changed: s.h.Now()}
	if err := checkDigest(want, u.Info); err != nil {
		return err
	}
	if !s.remote { // otherwise the stored blob would have to be downloaded
		if stored, err := u.renewIfStored(ctx, content); stored || err != nil {
			return err
		}
	}
	if err := u.begin(ctx, Ref{SHA256: &u.Address}); err != nil {
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
func (u *incoming) renewIfStored(ctx context.Context, content []byte) (stored bool, err error) {
	release, err := u.s.own(ctx, u.key())
	if err != nil {
		return false, err
	}
	defer release()
	o, err := u.s.backend.Stat(ctx, u.key())
	if err != nil || o.Hidden || o.Size != int64(len(content)) {
		return false, ignoreNotFound(err)
	}
	if same, err := u.s.hasBytes(ctx, u.key(), content); !same || err != nil {
		return false, err
	}
	u.Existed, u.Changed = true, o.Changed
	if u.s.isYoung(u.key(), &o) {
		return true, nil
	}
	return true, u.renew(ctx)
}

// hasBytes compares a stored blob with bytes. If it cannot read the blob, it returns false: the blob is written again,
// and the write reports what is wrong.
func (s *Store) hasBytes(ctx context.Context, k Key, content []byte) (same bool, err error) {
	stored, err := s.backend.Open(ctx, k)
	if err != nil {
		return false, nil
	}
	defer func() { err = errors.Join(err, stored.Close()) }()
	body, err := stored.Range(ctx, 0, int64(len(content)))
	if err != nil {
		return false, nil
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	buf := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buf)
	_, err = io.ReadFull(body, buf[:len(content)])
	return err == nil && bytes.Equal(buf[:len(content)], content), nil
}

// renew makes the stored blob young, and opens the file that must be synced. The caller owns the blob.
func (u *incoming) renew(ctx context.Context) (err error) {
	u.Changed, u.renewed = u.s.h.Now(), true
	u.f, err = u.s.renewFile(ctx, u.key())
	return err
}

// add adds an upload, and hands its files over to be synced. It reports whether the batch already has the blob.
func (b *Batch) add(ctx context.Context, u *incoming) (known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return false, errBatchEnded
	case b.added[u.Address] != nil:
		return true, nil
	case len(b.added) >= b.s.maxBatch:
		return false, fmt.Errorf("%w: it has %d blobs; next step: commit it and begin another", ErrBatchFull, len(b.added))
	}
	if b.s.remote { // Commit copies the file, which need not be durable
		f := u.f
		u.f = nil
		b.added[u.Address] = u
		return false, f.Close()
	}
	if err := b.prepareSHA1(ctx, u); err != nil {
		return false, err
	}
	if u.Path != "" {
		if err := u.setAge(); err != nil {
			return false, err
		}
	}
	if err := b.sync(u); err != nil {
		return false, err
	}
	b.added[u.Address] = u
	return false, nil
}

// prepareSHA1 writes the entry of the table, so that it is durable with everything else, unless the table has one.
func (b *Batch) prepareSHA1(ctx context.Context, u *incoming) error {
	a, err := b.s.backend.SHA1(ctx, b.name, u.SHA1)
	if err == nil && a == u.Address {
		return nil
	}
	if err := ignoreDamage(err); err != nil {
		return err
	}
	f, err := b.s.writeTemp(Entry(u.Address))
	if err != nil {
		return noSpace("write SHA-1 of blob", err)
	}
	u.EntryPath = f.Name()
	return b.syncs.add(f)
}

// sync hands the file of an upload over to be synced.
func (b *Batch) sync(u *incoming) error {
	f := u.f
	u.f = nil
	if f == nil {
		return nil
	}
	return b.syncs.add(f)
}

// Commit returns when all blobs of the batch are durable. Until then, reads see none of them. If Commit fails, none of
// them is added. A crash may leave some of them, whole. The next sweep after the grace removes these. Commit returns
// ErrNotFound if a blob that was stored when it was added was deleted since.
//
// In a bucket, Commit shows the blobs one after the other. If it fails, some of them may be stored.
func (b *Batch) Commit(ctx context.Context) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errBatchEnded
	}
	defer func() { err = errors.Join(err, b.end()) }()
	all := slices.SortedFunc(maps.Values(b.added), func(u, v *incoming) int { return compareAddresses(u.Address, v.Address) })
	if b.s.remote {
		return atOnce(ctx, b.s, all, func(ctx context.Context, _ int, u *incoming) error {
			return b.s.commit(ctx, b.name, []*incoming{u})
		})
	}
	for _, u := range all { // blobs that were added long ago have grown old
		if !b.s.isRecent(u.Changed) {
			if err := b.renew(ctx, u); err != nil {
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
	if err := b.s.commit(ctx, b.name, all); err != nil {
		return err
	}
	var renewed []Key
	for _, u := range all {
		if u.renewed {
			renewed = append(renewed, u.key())
		}
	}
	b.s.ageIsDurable(renewed)
	return nil
}

// renew gives a blob the age 0 and hands its file over to be synced.
func (b *Batch) renew(ctx context.Context, u *incoming) (err error) {
	if u.Path == "" {
		release, err := b.s.own(ctx, u.key())
		if err != nil {
			return err
		}
		defer release()
		if err := u.renew(ctx); errors.Is(err, ErrNotFound) {
			return u.deleted()
		} else if err != nil {
			return err
		}
		return b.sync(u)
	}
	if u.f, err = openFile(u.Path); errors.Is(err, fs.ErrNotExist) {
		return u.deleted()
	}
	if err != nil {
		return fmt.Errorf("renew blob: %w", err)
	}
	if err := u.setAge(); err != nil {
		return err // end closes the file
	}
	return b.sync(u)
}

// Discard ends the batch and removes the added blobs. After Commit it does nothing.
func (b *Batch) Discard() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	return b.end()
}

// end removes the files that Commit has not given a name, and frees everything.
func (b *Batch) end() error {
	b.closed = true
	err := b.syncs.end()
	var left error
	for _, u := range b.added {
		left = first(left, u.discard()) // one error is enough
	}
	b.added = nil
	b.free()
	return errors.Join(err, left)
}

// renewFile makes a stored blob young. The caller owns the blob, and syncs and closes the file unless it is nil. The
// new age may not be durable: until ageIsDurable is called, other calls renew the blob as if it were old. A sweep
// believes the new age at once.
func (s *Store) renewFile(ctx context.Context, k Key) (*os.File, error) {
	if !s.remote {
		s.mu.Lock()
		s.unsyncedAge[k] = true
		s.mu.Unlock()
	}
	f, err := s.backend.Renew(ctx, k)
	if errors.Is(err, ErrNotFound) {
		s.ageIsDurable([]Key{k})
	}
	return f, err
}

// ageIsDurable records that the current ages of blobs are on the disk, or that the blobs are gone.
func (s *Store) ageIsDurable(all []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range all {
		delete(s.unsyncedAge, k)
	}
}
