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
	// RemoteRequests is how many blobs a batch copies, or Missing asks for, at once: a request to another place takes
	// tens of milliseconds. Each copy has one descriptor at a time beside its request, so a batch has taken them all.
	RemoteRequests = batchFiles
	// settleFor is how long a store tries to find out what a failed request has done.
	settleFor = 10 * time.Second
	// maxUnsure is how many blobs with an unknown size a store remembers. Those beyond it count in full until the next
	// start.
	maxUnsure = 10_000
	// maxApart is how far the clock of the place may be from ours. S3 refuses requests beyond that.
	maxApart = 15 * time.Minute
)

// Remote keeps the blobs of a store in another place than a directory, for example in a bucket. The directory of the
// store receives uploads, and their files are copied when they are complete. Its methods may be called by many
// goroutines. They return ErrNotFound for what is not there, and ErrUnavailable if the place does not answer. A call of
// Put or Remove that failed may have been carried out.
type Remote interface {
	// Stat describes a blob. Its age is that of its last Put.
	Stat(ctx context.Context, a Address) (RemoteInfo, error)
	// Put stores the bytes of a file, in place of what is there. The place has verified all bytes if Put returns nil.
	Put(ctx context.Context, file io.ReaderAt, info Info) error
	// Read reads n bytes from an offset. It returns ErrUnavailable if the blob is not the one that Stat has described.
	Read(ctx context.Context, info RemoteInfo, off, n int64) (io.ReadCloser, error)
	// Remove removes a blob and its renewal.
	Remove(ctx context.Context, a Address) error
	// Renew makes a blob young.
	Renew(ctx context.Context, a Address) error
	// Renewed returns the time of the last Renew, or ErrNotFound.
	Renewed(ctx context.Context, a Address) (time.Time, error)
	// Each calls visit with the blobs in the order of their addresses, those after a given one, and with renewals of
	// blobs that are gone. Their age is that of their last Put or Renew. most is about how many will be visited; 0 means all.
	Each(ctx context.Context, after *Address, most int, visit func(RemoteInfo) error) error
	// IsEmpty reports whether the place has nothing of this store: no blob, no renewal and no entry of the table.
	IsEmpty(ctx context.Context) (bool, error)
	// SHA1 returns the entry of the table, or ErrNotFound.
	SHA1(ctx context.Context, x SHA1) (Address, error)
	// SHA1s calls visit with the entries of the table in their order, those after a given one, and when they were written.
	SHA1s(ctx context.Context, after *SHA1, visit func(x SHA1, changed time.Time) error) error
	PutSHA1(ctx context.Context, x SHA1, a Address) error
	// AddSHA1 writes an entry in one request, and reports whether it has. If it has not, there is one already, or the
	// place cannot say.
	AddSHA1(ctx context.Context, x SHA1, a Address) (added bool, err error)
	RemoveSHA1(ctx context.Context, x SHA1) error
	// Owned returns an error if another server has taken the place, and otherwise the time by its clock, from the same
	// answer. A sweep asks it first.
	Owned(ctx context.Context) (time.Time, error)
	// Now is about the clock of the place, as the last answer had it.
	Now() time.Time
}

// RemoteInfo describes a blob of a Remote.
type RemoteInfo struct {
	Info           // SHA1 is zero if the place does not know it
	Version string // another one if the blob was put with other bytes
	Place   string // its name, for errors
	Gone    bool   // only from Each: there is no blob, but a renewal of it
}

// Bucket has the Remote of each client.
type Bucket interface {
	// Remote returns the blobs of a client, or with "" those that all clients share.
	Remote(client string) Remote
	// Usage returns the bytes of the blobs of each client that has any, and with "" those of the shared ones.
	Usage(ctx context.Context) (map[string]int64, error)
	// Close ends all requests that are under way.
	Close() error
}

// remoteStore is the Store whose blobs a Remote has. The Dir receives uploads, and counts the bytes of all.
type remoteStore struct {
	*Dir
	remote Remote

	muUnsure sync.Mutex // guards unsure
	// unsure has the bytes that count for blobs of which nobody knows whether they are stored, since a request has failed.
	unsure map[Address]int64

	muTable sync.Mutex // guards the fields below
	tableAt time.Time  // when a sweep has looked at entries of the table last
	tableTo *SHA1      // the last of them; nil: it was the end of the table
}

var _ Store = (*remoteStore)(nil)

// IsRemote reports whether each read of a blob of a store takes requests to another place. A reader of many blobs then reads
// several at once.
func IsRemote(s Store) bool {
	switch s := s.(type) {
	case *remoteStore:
		return true
	case *clientStore:
		return s.of.bucket != nil
	}
	return false
}

// ownFor is own for a caller that does not wait longer than ctx. A copy can take minutes.
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

// ownNow is own for a caller that does not wait. Another goroutine may own the key: then it returns false.
func (s *Dir) ownNow(key any) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.busy[key]; taken {
		return nil, false
	}
	return s.take(key), true
}

// keep copies a file that was received to the remote, and removes it.
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

// keepAll copies many files, several at once. If one fails, some of the others may be stored.
func (r *remoteStore) keepAll(ctx context.Context, all []*upload) error {
	return atOnce(ctx, all, func(ctx context.Context, _ int, u *upload) error { return r.keep(ctx, u) })
}

// atOnce calls do for all items, RemoteRequests at a time, and returns the first error. After an error it begins no other
// call, and waits for those that run: a request that is broken off may still be carried out.
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

// keepSHA1 writes an entry of the table, unless it is there or leads to another blob that exists.
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

// counted returns how many bytes count for a blob that has so many, or 0 if it is not there. The caller owns the address.
func (r *remoteStore) counted(a Address, size int64) int64 {
	r.muUnsure.Lock()
	defer r.muUnsure.Unlock()
	if n, ok := r.unsure[a]; ok {
		return n
	}
	return size
}

// countAs makes other bytes count for a blob. The caller owns the address.
func (r *remoteStore) countAs(a Address, counted, size int64) {
	r.muUnsure.Lock()
	delete(r.unsure, a)
	r.muUnsure.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(size - counted)
}

// settle finds out what a failed Put or Remove of a blob has done, and counts its bytes. If this fails, too, the most
// that it can have counts. The caller owns the address.
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
