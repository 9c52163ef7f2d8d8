package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// clientStore is the Store of a client. It reads blobs that it lacks from the shared store. It needs no directory while
// it has no blobs.
type clientStore struct {
	of   *Clients
	name string
}

var _ Store = (*clientStore)(nil)

// Put stores a blob of the client.
func (s *clientStore) Put(ctx context.Context, r io.Reader, want Ref) (Info, error) {
	dir, release, err := s.of.use(s.name, true)
	if err != nil {
		return Info{}, err
	}
	defer release()
	return dir.Put(ctx, r, want)
}

// NewBatch begins a batch of blobs of the client.
func (s *clientStore) NewBatch(ctx context.Context) (Batch, error) {
	dir, release, err := s.of.use(s.name, true)
	if err != nil {
		return nil, err
	}
	defer release()
	return dir.NewBatch(ctx)
}

// NewUpload begins a resumable upload of the client.
func (s *clientStore) NewUpload(ctx context.Context, size int64, want Ref) (Upload, error) {
	dir, release, err := s.of.use(s.name, true)
	if err != nil {
		return nil, err
	}
	defer release()
	return dir.NewUpload(ctx, size, want)
}

// Upload returns a resumable upload of the client.
func (s *clientStore) Upload(ctx context.Context, id string) (Upload, error) {
	dir, release, err := s.of.use(s.name, false)
	if err != nil {
		return nil, err
	}
	defer release()
	if dir == nil {
		return nil, fmt.Errorf("%w: the client has no uploads", ErrNotFound)
	}
	return dir.Upload(ctx, id)
}

// either calls ask with the client's store, and with the shared store if the first call returns ErrNotFound.
func (s *clientStore) either(ask func(Store) error) error {
	dir, release, err := s.of.use(s.name, false)
	if err != nil {
		return err
	}
	defer release()
	if dir != nil {
		if err := ask(dir); !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return ask(s.of.shared.asStore())
}

// Resolve looks up a SHA-1, also among the shared blobs.
func (s *clientStore) Resolve(ctx context.Context, ref Ref) (a Address, err error) {
	err = s.either(func(dir Store) (err error) { a, err = dir.Resolve(ctx, ref); return err })
	return a, err
}

// Get opens a blob of the client, or a shared one.
func (s *clientStore) Get(ctx context.Context, a Address) (b Blob, err error) {
	err = s.either(func(dir Store) (err error) { b, err = dir.Get(ctx, a); return err })
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Stat describes a blob of the client, or a shared one.
func (s *clientStore) Stat(ctx context.Context, a Address) (info Info, err error) {
	err = s.either(func(dir Store) (err error) { info, err = dir.Stat(ctx, a); return err })
	return info, err
}

// Missing returns the blobs that neither the client's store nor the shared store has.
func (s *clientStore) Missing(ctx context.Context, all []Address) (missing []Address, err error) {
	sizes, err := s.Sizes(ctx, all)
	return without(all, sizes), err
}

// Sizes looks for the blobs in the client's store, and for the rest in the shared store.
func (s *clientStore) Sizes(ctx context.Context, all []Address) (sizes []int64, err error) {
	dir, release, err := s.of.use(s.name, false)
	if err != nil {
		return nil, err
	}
	defer release()
	shared := s.of.shared.asStore()
	if dir == nil {
		return shared.Sizes(ctx, all)
	}
	if sizes, err = dir.Sizes(ctx, all); err != nil {
		return nil, err
	}
	rest, err := shared.Sizes(ctx, without(all, sizes))
	if err != nil {
		return nil, err
	}
	for i := range sizes {
		if sizes[i] == NotStored {
			sizes[i], rest = rest[0], rest[1:]
		}
	}
	return sizes, nil
}

// List lists the blobs of the client.
func (s *clientStore) List(ctx context.Context, after *Address, limit int) ([]Info, error) {
	if err := checkList(limit); err != nil {
		return nil, err
	}
	dir, release, err := s.of.use(s.name, false)
	if err != nil {
		return nil, err
	}
	defer release()
	if dir == nil {
		return nil, nil
	}
	return dir.List(ctx, after, limit)
}

// Delete removes a blob of the client.
func (s *clientStore) Delete(ctx context.Context, a Address) error {
	dir, release, err := s.of.use(s.name, false)
	if err != nil {
		return err
	}
	defer release()
	if dir == nil {
		return notFound(a)
	}
	return dir.Delete(ctx, a)
}

// Sweep sweeps the blobs of the client. It removes the client's directory if no blobs remain.
func (s *clientStore) Sweep(ctx context.Context, live func(Address) bool) (Swept, error) {
	dir, release, err := s.of.use(s.name, false)
	if dir == nil || err != nil {
		return Swept{}, err
	}
	swept, err := dir.Sweep(ctx, live)
	release()
	if err != nil {
		return swept, fmt.Errorf("client %s: %w", s.name, err)
	}
	return swept, s.of.removeEmpty(ctx, s.name)
}

// Used returns the bytes of the blobs and uploads of the client.
func (s *clientStore) Used() int64 {
	s.of.mu.Lock()
	of := s.of.clients[s.name]
	s.of.mu.Unlock()
	if of == nil {
		return 0
	}
	of.mu.RLock()
	defer of.mu.RUnlock()
	if of.dir == nil {
		return of.closed
	}
	return of.dir.Used()
}

// Close does nothing, because Clients is closed as a whole.
func (s *clientStore) Close() error { return nil }

func (s *clientStore) ownSHA1(ctx context.Context, x SHA1) (Address, error) {
	dir, release, err := s.of.use(s.name, false)
	if err != nil {
		return Address{}, err
	}
	defer release()
	if dir == nil {
		return Address{}, fmt.Errorf("%w: SHA-1 %s", ErrNotFound, x)
	}
	return dir.(tableStore).ownSHA1(ctx, x)
}

func (s *clientStore) ownSHA1s(ctx context.Context, visit func(SHA1) error) (listed bool, err error) {
	dir, release, err := s.of.use(s.name, false)
	if dir == nil || err != nil {
		return false, err
	}
	defer release()
	return dir.(tableStore).ownSHA1s(ctx, visit)
}
