package blob

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxList is the largest limit of List.
const MaxList = 10_000

// Resolve returns the address that ref names. It returns ErrNotFound if ref is zero, or is a SHA-1 with which no blob
// was put. It does not check that the blob itself is stored.
func (s *Store) Resolve(ctx context.Context, client string, ref Ref) (a Address, err error) {
	switch {
	case ref.SHA256 != nil:
		return *ref.SHA256, nil
	case ref.SHA1 == nil:
		return a, fmt.Errorf("%w: no address", ErrNotFound)
	}
	free, err := s.files.take(ctx, readFiles) // a file or a connection
	if err != nil {
		return a, err
	}
	defer free()
	err = s.either(client, func(client string) (err error) { a, err = s.backend.SHA1(ctx, client, *ref.SHA1); return err })
	return a, err
}

// Stat describes a blob that is stored durably, or returns ErrNotFound. It does not read the blob.
func (s *Store) Stat(ctx context.Context, client string, a Address) (info Info, err error) {
	err = s.either(client, func(client string) error {
		o, err := s.look(ctx, blobKey(client, a))
		info = o.plain()
		return err
	})
	return info, err
}

// look describes a blob that reads can see. It reads the last renewal only if it matters.
func (s *Store) look(ctx context.Context, k Key) (o Object, err error) {
	if o, err = s.backend.Stat(ctx, k); err != nil {
		return Object{}, err
	}
	if o.Hidden {
		return Object{}, notFound(o.Address)
	}
	if s.remote && !s.isYoung(k, &o) {
		err = s.addRenewal(ctx, k.Client, &o)
	}
	return o, err
}

func notFound(a Address) error { return fmt.Errorf("%w: %s", ErrNotFound, a) }

// addRenewal adds the last renewal to the age of a blob.
func (s *Store) addRenewal(ctx context.Context, client string, o *Object) error {
	r, err := s.backend.Stat(ctx, renewalKey(client, o.Address))
	if err == nil && r.Changed.After(o.Changed) {
		o.Changed = r.Changed
	}
	return ignoreNotFound(err)
}

// isYoung reports whether a blob needs no renewal, because its age is recent by both clocks, and durable.
func (s *Store) isYoung(k Key, o *Object) bool {
	if o.Now.Sub(o.Changed) > s.o.Grace/renewShare || !s.isRecent(o.Changed) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unsyncedAge[k]
}

// isRecent reports whether an age needs no renewal.
func (s *Store) isRecent(changed time.Time) bool {
	return s.h.Now().Sub(changed) <= s.o.Grace/renewShare
}

// Missing returns the blobs that are not stored, in the order of its argument. A later sweep keeps the stored ones as
// if they had just been put. So a producer puts only the missing ones and then creates its jobs.
//
// If many blobs are old, Missing renews them with one syncfs where the store trusts syncfs, and otherwise with many
// concurrent fsyncs. In a bucket, it takes one request for each blob that was put in the last hour or is missing, two
// for each blob that was renewed in the last hour, and three for each other blob.
func (s *Store) Missing(ctx context.Context, client string, all []Address) (missing []Address, err error) {
	sizes, err := s.Sizes(ctx, client, all)
	return without(all, sizes), err
}

// without returns the blobs that are not stored.
func without(all []Address, sizes []int64) (missing []Address) {
	for i, size := range sizes {
		if size == NotStored {
			missing = append(missing, all[i])
		}
	}
	return missing
}

// Sizes does the work of Missing, and returns the size of each blob in bytes, in the order of its argument. The size of
// a missing blob is NotStored.
func (s *Store) Sizes(ctx context.Context, client string, all []Address) ([]int64, error) {
	has, err := s.has(client)
	if err != nil {
		return nil, err
	}
	if client == "" || !has {
		return s.sizes(ctx, "", all)
	}
	sizes, err := s.sizes(ctx, client, all)
	if err != nil {
		return nil, err
	}
	shared, err := s.sizes(ctx, "", without(all, sizes))
	if err != nil {
		return nil, err
	}
	for i := range sizes {
		if sizes[i] == NotStored {
			sizes[i], shared = shared[0], shared[1:]
		}
	}
	return sizes, nil
}

// sizes looks at the blobs of one client, and renews the old ones.
func (s *Store) sizes(ctx context.Context, client string, all []Address) (sizes []int64, err error) {
	sizes = make([]int64, len(all))
	var y *syncs
	if !s.remote {
		old := false
		for i, a := range all {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			o, err := s.look(ctx, blobKey(client, a))
			if sizes[i], err = sizeOf(o, err); err != nil {
				return nil, err
			}
			old = old || sizes[i] != NotStored && !s.isYoung(blobKey(client, a), &o)
		}
		if !old {
			return sizes, nil // no sweep is removing a young blob
		}
		free, err := s.files.take(ctx, renewFiles)
		if err != nil {
			return nil, err
		}
		defer free()
		if y, err = s.newSyncs(); err != nil {
			return nil, fmt.Errorf("renew blobs: %w", err)
		}
	}
	var renewed []Key
	err = atOnce(ctx, s, all, func(ctx context.Context, i int, a Address) (err error) {
		k, fresh := blobKey(client, a), false
		if sizes[i], fresh, err = s.renew(ctx, k, y); fresh && !s.remote {
			renewed = append(renewed, k)
		}
		return err
	})
	if y != nil {
		if err == nil {
			if err = y.wait(); err != nil {
				err = noSpace("renew blobs", err)
			}
		}
		err = errors.Join(err, y.end())
	}
	if err != nil {
		return nil, err
	}
	s.ageIsDurable(renewed)
	return sizes, nil
}

// renew makes a blob young again if it is old, and returns its size, or NotStored. The file of the blob is handed over
// to y. If the blob is free, renew owns it from the beginning, because an old blob could be removed between two
// requests. If not, renew first reads the age without owning the blob: no sweep removes a young blob, and the owner may
// be a copy that takes minutes.
func (s *Store) renew(ctx context.Context, k Key, y *syncs) (size int64, renewed bool, err error) {
	release, _ := s.tryOwn(k)
	if release == nil {
		o, err := s.look(ctx, k)
		if err != nil && !errors.Is(err, ErrNotFound) || err == nil && s.isYoung(k, &o) {
			size, err = sizeOf(o, err)
			return size, false, err
		}
		if release, err = s.own(ctx, k); err != nil {
			return NotStored, false, err
		}
	}
	defer release()
	o, err := s.look(ctx, k)
	if err == nil && !s.isYoung(k, &o) {
		f, err := s.renewFile(ctx, k)
		if err == nil && f != nil {
			err = y.add(f)
		}
		return o.Size, err == nil, err
	}
	size, err = sizeOf(o, err)
	return size, false, err
}

// sizeOf returns the size from the result of look, or NotStored.
func sizeOf(o Object, err error) (int64, error) {
	if err != nil {
		return NotStored, ignoreNotFound(err)
	}
	return o.Size, nil
}

// errListed ends a listing that has enough.
var errListed = errors.New("listed")

// List returns up to limit blobs of a client, in the order of their addresses. It begins after a given address, or with
// the first blob if that is nil. In a directory it reads all names each time.
func (s *Store) List(ctx context.Context, client string, after *Address, limit int) (list []Info, err error) {
	if limit < 1 || limit > MaxList {
		return nil, fmt.Errorf("list blobs: limit %d is not between 1 and %d", limit, MaxList)
	}
	if has, err := s.has(client); !has || err != nil {
		return nil, err
	}
	name := ""
	if after != nil {
		name = blobKey(client, *after).Name
	}
	err = s.backend.List(ctx, client, Blobs, name, limit, func(o Object) error {
		if o.Gone || o.Hidden {
			return nil
		}
		if list = append(list, o.plain()); len(list) == limit {
			return errListed
		}
		return nil
	})
	if err != nil && err != errListed {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	return list, nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// ignoreDamage returns nil for entries that are gone or damaged: the next Put of the content replaces a damaged one.
func ignoreDamage(err error) error {
	if _, damaged := errors.AsType[*DamagedError](err); damaged {
		return nil
	}
	return ignoreNotFound(err)
}
