package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// RemoteRequests is the number of concurrent requests of a batch that copies blobs, or of Missing: a request to
	// another place takes tens of milliseconds. Each copy has one descriptor at a time in addition to its request, so
	// batchFiles covers all of them.
	RemoteRequests = batchFiles
	// settleFor is the time that a store tries to find out the effect of a failed request.
	settleFor = 10 * time.Second
	// maxUnsure is the number of blobs with an unknown size that a store remembers. Further ones count in full until
	// the next start.
	maxUnsure = 10_000
	// maxApart is the largest difference between the place's clock and ours. S3 refuses requests beyond that.
	maxApart = 15 * time.Minute
)

// Remote stores the blobs of a store in another place than a directory, for example in a bucket. The directory of the
// store receives uploads, and their files are copied when they are complete. Methods may be called by many goroutines.
// They return ErrNotFound if the object does not exist, and ErrUnavailable if the place does not answer. A failed call
// of Put or Remove may have been carried out.
type Remote interface {
	// Stat describes a blob. The blob's age counts from its last Put.
	Stat(ctx context.Context, a Address) (RemoteInfo, error)
	// Put stores the bytes of a file, and replaces an existing blob. The place has verified all bytes if Put returns
	// nil.
	Put(ctx context.Context, file io.ReaderAt, info Info) error
	// Read reads n bytes from an offset. It returns ErrUnavailable if the blob is not the version that Stat has
	// described.
	Read(ctx context.Context, info RemoteInfo, off, n int64) (io.ReadCloser, error)
	// Remove removes a blob and its renewal.
	Remove(ctx context.Context, a Address) error
	// Renew makes a blob young.
	Renew(ctx context.Context, a Address) error
	// Renewed returns the time of the last Renew, or ErrNotFound.
	Renewed(ctx context.Context, a Address) (time.Time, error)
	// Each calls visit with the blobs after a given address, in the order of their addresses, and with renewals of
	// blobs that are gone. The age counts from the last Put or Renew. most is about the number of blobs to visit; 0
	// means all.
	Each(ctx context.Context, after *Address, most int, visit func(RemoteInfo) error) error
	// IsEmpty reports whether the place has nothing of this store: no blob, no renewal and no entry of the table.
	IsEmpty(ctx context.Context) (bool, error)
	// SHA1 returns the entry of the table, or ErrNotFound.
	SHA1(ctx context.Context, x SHA1) (Address, error)
	// SHA1s calls visit with the entries of the table after a given one, in their order, and with the time when each
	// was written.
	SHA1s(ctx context.Context, after *SHA1, visit func(x SHA1, changed time.Time) error) error
	PutSHA1(ctx context.Context, x SHA1, a Address) error
	// AddSHA1 writes an entry in one request if the table has none, and reports whether it has written it. It writes
	// nothing if the place cannot check this.
	AddSHA1(ctx context.Context, x SHA1, a Address) (added bool, err error)
	RemoveSHA1(ctx context.Context, x SHA1) error
	// Owned returns an error if another server has taken the place. Otherwise it returns the time by the place's clock,
	// from the same answer. A sweep calls it first.
	Owned(ctx context.Context) (time.Time, error)
	// Now is about the current time by the place's clock, estimated from its last answer.
	Now() time.Time
}

// RemoteInfo describes a blob of a Remote.
type RemoteInfo struct {
	Info           // SHA1 is zero if the place does not know it
	Version string // changes if the blob is put with other bytes
	Place   string // the name of the blob's object, for errors
	Gone    bool   // only from Each: the blob does not exist, but a renewal of it does
}

// Bucket has the Remote of each client.
type Bucket interface {
	// Remote returns the blobs of a client, or with "" the blobs that all clients share.
	Remote(client string) Remote
	// Usage returns the bytes of the blobs of each client that has any, and with "" the bytes of the shared blobs.
	Usage(ctx context.Context) (map[string]int64, error)
	// Close ends all outstanding requests.
	Close() error
}

// remoteStore is a Store whose blobs are in a Remote. The Dir receives uploads, and counts the bytes of all.
type remoteStore struct {
	*Dir
	remote Remote

	muUnsure sync.Mutex // guards unsure
	// unsure has the counted bytes of blobs that may or may not be stored, because a request has failed.
	unsure map[Address]int64

	muTable sync.Mutex // guards the fields below
	tableAt time.Time  // when a sweep has last read entries of the table
	tableTo *SHA1      // the last of them; nil: it was the end of the table
}

var _ Store = (*remoteStore)(nil)

// IsRemote reports whether each read of a blob of a store takes requests to another place. A reader of many blobs then
// reads several at a time.
func IsRemote(s Store) bool {
	switch s := s.(type) {
	case *remoteStore:
		return true
	case *clientStore:
		return s.of.bucket != nil
	}
	return false
}

// ownFor is own with a ctx that ends the wait. A copy can take minutes.
func (s *Dir) ownFor(ctx context.Context, key any) (release func(), err error) {
	for {
		s.mu.Lock()
		other, taken := s.busy[key]
		s.mu.Unlock()
		if !taken {
			return s.own(key), nil // it rarely waits, since another goroutine may be faster
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ownNow is own without a wait. It returns false if another goroutine owns the key.
func (s *Dir) ownNow(key any) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.busy[key]; taken {
		return nil, false
	}
	return s.take(key), true
}

// keep copies a received file to the remote, and removes the file.
func (r *remoteStore) keep(ctx context.Context, u *upload) error {
	a := u.info.Address
	release, err := r.ownFor(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	old, err := r.remote.Stat(ctx, a)
	there := err == nil
	if err := ignoreNotFound(err); err != nil {
		return err
	}
	u.info.Existed = there
	counted := r.counted(a, old.Size)
	r.mu.Lock()
	err = u.recharge(max(u.size-counted, 0))
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if !there || old.SHA1 != u.info.SHA1 {
		if err := r.keepSHA1(ctx, u.info.SHA1, a); err != nil {
			return err
		}
	}
	f, err := os.Open(u.path)
	if err != nil {
		return fmt.Errorf("copy blob: %w", err)
	}
	err = errors.Join(r.remote.Put(ctx, f, u.info), f.Close())
	if err != nil {
		r.settle(a, counted, u.size)
		return err
	}
	u.info.Changed = r.remote.Now()
	r.countAs(a, counted, u.size)
	r.mu.Lock()
	r.count(-u.charged)
	u.charged = 0
	r.mu.Unlock()
	if err := r.h.Remove(u.path); err != nil {
		return fmt.Errorf("remove the copied file of a blob: %w", err)
	}
	u.path = ""
	return nil
}

// keepAll copies many files, several at a time. If one copy fails, some of the remaining files may be stored.
func (r *remoteStore) keepAll(ctx context.Context, all []*upload) error {
	return atOnce(ctx, all, func(ctx context.Context, _ int, u *upload) error { return r.keep(ctx, u) })
}

// atOnce calls do for all items, RemoteRequests at a time, and returns the first error. After an error it begins no
// more calls, and waits for the running ones: a request that is broken off may still be carried out.
func atOnce[T any](ctx context.Context, all []T, do func(ctx context.Context, i int, item T) error) error {
	good, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	next := make(chan int)
	for range min(RemoteRequests, len(all)) {
		running.Go(func() {
			for i := range next {
				if err := do(ctx, i, all[i]); err != nil {
					fail(err)
				}
			}
		})
	}
	for i := range all {
		if good.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	running.Wait()
	return context.Cause(good)
}

// keepSHA1 writes an entry of the table, unless it exists or leads to another blob that exists.
func (r *remoteStore) keepSHA1(ctx context.Context, x SHA1, a Address) error {
	release, err := r.ownFor(ctx, x)
	if err != nil {
		return err
	}
	defer release()
	if added, err := r.remote.AddSHA1(ctx, x, a); added || err != nil {
		return err
	}
	old, err := r.remote.SHA1(ctx, x)
	if err == nil && old != a {
		_, err = r.remote.Stat(ctx, old)
	}
	if err == nil {
		return nil
	}
	if err := ignoreDamage(err); err != nil {
		return err
	}
	return r.remote.PutSHA1(ctx, x, a)
}

// counted returns the number of bytes that currently count for a blob. size is the blob's real size, or 0 if it is not
// stored. The caller owns the address.
func (r *remoteStore) counted(a Address, size int64) int64 {
	r.muUnsure.Lock()
	defer r.muUnsure.Unlock()
	if n, ok := r.unsure[a]; ok {
		return n
	}
	return size
}

// countAs changes the bytes that count for a blob from counted to size. The caller owns the address.
func (r *remoteStore) countAs(a Address, counted, size int64) {
	r.muUnsure.Lock()
	delete(r.unsure, a)
	r.muUnsure.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(size - counted)
}

// settle finds out the effect of a failed Put or Remove of a blob, and counts the blob's bytes. If settle fails, too,
// it counts most, the largest possible size. The caller owns the address.
func (r *remoteStore) settle(a Address, counted, most int64) {
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	now, err := r.remote.Stat(ctx, a)
	if ignoreNotFound(err) == nil {
		r.countAs(a, counted, now.Size)
		return
	}
	r.countAs(a, counted, most)
	r.muUnsure.Lock()
	defer r.muUnsure.Unlock()
	if len(r.unsure) < maxUnsure {
		r.unsure[a] = most
	}
}

// credit returns the bytes of the blob that an upload will replace, as far as this is known.
func (r *remoteStore) credit(ctx context.Context, want Ref) int64 {
	a, err := Address{}, error(nil)
	switch {
	case want.SHA256 != nil:
		a = *want.SHA256
	case want.SHA1 != nil:
		a, err = r.remote.SHA1(ctx, *want.SHA1) // the upload has files already, and must not wait for more
	default:
		return 0
	}
	if err != nil {
		return 0
	}
	if info, err := r.remote.Stat(ctx, a); err == nil {
		return info.Size
	}
	return 0
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
