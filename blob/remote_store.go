package blob

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Resolve returns the address that ref names, as Dir does.
func (r *remoteStore) Resolve(ctx context.Context, ref Ref) (Address, error) {
	if ref.SHA256 != nil || ref.SHA1 == nil {
		return r.Dir.Resolve(ctx, ref)
	}
	free, err := r.files.take(ctx, readFiles) // a connection
	if err != nil {
		return Address{}, err
	}
	defer free()
	return r.remote.SHA1(ctx, *ref.SHA1)
}

// Stat describes a blob, or returns ErrNotFound.
func (r *remoteStore) Stat(ctx context.Context, a Address) (Info, error) {
	info, _, err := r.look(ctx, a)
	return info, err
}

// look does the work of Stat, and reports whether the blob needs no renewal. It reads the last renewal only if it
// matters.
func (r *remoteStore) look(ctx context.Context, a Address) (_ Info, young bool, err error) {
	info, err := r.remote.Stat(ctx, a)
	if err == nil && !r.isYoungThere(&info) {
		err = r.addRenewal(ctx, &info)
	}
	return info.plain(), r.isYoungThere(&info), err
}

// plain is the description as other stores return it.
func (i *RemoteInfo) plain() Info {
	info := i.Info
	info.SHA1 = SHA1{} // only from Put
	return info
}

// isYoungThere is isYoung by the remote's clock and by ours.
func (r *remoteStore) isYoungThere(i *RemoteInfo) bool {
	young := r.o.Grace / renewShare
	return r.remote.Now().Sub(i.Changed) <= young && r.h.Now().Sub(i.Changed) <= young
}

// addRenewal adds the last renewal to the age of a blob.
func (r *remoteStore) addRenewal(ctx context.Context, info *RemoteInfo) error {
	at, err := r.remote.Renewed(ctx, info.Address)
	if err == nil && at.After(info.Changed) {
		info.Changed = at
	}
	return ignoreNotFound(err)
}

// Get opens a blob. ctx ends its reads.
func (r *remoteStore) Get(ctx context.Context, a Address) (_ Blob, err error) {
	free, err := r.files.take(ctx, readFiles)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			free()
		}
	}()
	info, err := r.remote.Stat(ctx, a)
	if err != nil {
		return nil, err
	}
	b := &remoteBlob{info: info, r: r, ctx: ctx, free: sync.OnceFunc(free)}
	if info.Size == 0 {
		if err := b.Verify(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Missing returns the blobs that are not stored, in the order of its argument, and renews the stored ones.
func (r *remoteStore) Missing(ctx context.Context, all []Address) (missing []Address, err error) {
	sizes, err := r.Sizes(ctx, all)
	return without(all, sizes), err
}

// Sizes returns the sizes of the blobs, and NotStored for the missing ones, and renews the stored ones. It takes one
// request for each blob that was put in the last hour or is missing, two for each blob that was renewed in the last
// hour, and three for each other blob.
func (r *remoteStore) Sizes(ctx context.Context, all []Address) ([]int64, error) {
	sizes := make([]int64, len(all))
	err := atOnce(ctx, all, func(ctx context.Context, i int, a Address) (err error) {
		sizes[i], err = r.renew(ctx, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sizes, nil
}

// renew makes a blob young again, and returns its size, or NotStored. If the address is free, renew owns it from the
// beginning, because an old blob could be removed between two requests. If not, renew first reads the age without
// owning the address: no sweep removes a young blob, and the owner may be a copy that takes minutes.
func (r *remoteStore) renew(ctx context.Context, a Address) (size int64, err error) {
	release, owned := r.ownNow(a)
	if !owned {
		if info, young, err := r.look(ctx, a); err != nil || young {
			return sizeOf(info, err)
		}
		if release, err = r.ownFor(ctx, a); err != nil {
			return NotStored, err
		}
	}
	defer release()
	info, young, err := r.look(ctx, a)
	if err == nil && !young {
		if err := r.remote.Renew(ctx, a); err != nil {
			return NotStored, err
		}
	}
	return sizeOf(info, err)
}

// sizeOf returns the size from the result of look, or NotStored.
func sizeOf(info Info, err error) (int64, error) {
	if err != nil {
		return NotStored, ignoreNotFound(err)
	}
	return info.Size, nil
}

// errListed ends a listing that has enough.
var errListed = errors.New("listed")

// List returns up to limit blobs after a given address, in the order of their addresses.
func (r *remoteStore) List(ctx context.Context, after *Address, limit int) (list []Info, err error) {
	if err := checkList(limit); err != nil {
		return nil, err
	}
	err = r.remote.Each(ctx, after, limit, func(info RemoteInfo) error {
		if info.Gone {
			return nil
		}
		if list = append(list, info.plain()); len(list) == limit {
			return errListed
		}
		return nil
	})
	if err != nil && err != errListed {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	return list, nil
}

// Delete removes a blob at once, or returns ErrNotFound.
func (r *remoteStore) Delete(ctx context.Context, a Address) error {
	release, err := r.ownFor(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	info, err := r.remote.Stat(ctx, a)
	if err != nil {
		return err
	}
	_, err = r.drop(ctx, &info)
	return err
}

// drop removes a blob and the entry of its SHA-1. The caller owns the address.
func (r *remoteStore) drop(ctx context.Context, info *RemoteInfo) (droppedSHA1 bool, err error) {
	a := info.Address
	counted := r.counted(a, info.Size)
	if err := r.remote.Remove(ctx, a); err != nil {
		r.settle(a, counted, max(counted, info.Size))
		return false, fmt.Errorf("remove blob: %w", err)
	}
	r.countAs(a, counted, 0)
	if info.SHA1 == (SHA1{}) {
		return false, nil
	}
	release, err := r.ownFor(ctx, info.SHA1)
	if err != nil {
		return false, err
	}
	defer release()
	if to, err := r.remote.SHA1(ctx, info.SHA1); err != nil || to != a {
		return false, ignoreDamage(err)
	}
	return true, r.remote.RemoveSHA1(ctx, info.SHA1)
}

// Sweep removes the blobs that are older than Options.Grace and that live does not name, as Dir does. It also removes
// old renewals and, once a day, old entries of the table whose blobs are gone.
//
// A listing gives the first view of a blob's age. Before Sweep removes the blob, it reads the age again, while no Put
// or Missing of its address runs. Sweep fixes the limit for old blobs once, when it begins.
func (r *remoteStore) Sweep(ctx context.Context, live func(Address) bool) (swept Swept, err error) {
	before, err := r.oldBefore(ctx)
	if err == nil {
		s := &remoteSweep{r: r, live: live, before: before}
		err = r.remote.Each(ctx, nil, 0, func(info RemoteInfo) error { return s.visit(ctx, &info) })
		if err == nil {
			err = s.flush(ctx)
		}
		if err == nil {
			err = s.table(ctx)
		}
		swept = s.swept
	}
	if err == nil {
		swept.Uploads, err = r.dropResumables(func(state UploadState) bool { return r.h.Now().After(state.Expires) })
	}
	if err != nil {
		return swept, fmt.Errorf("sweep blobs: %w", err)
	}
	return swept, nil
}

// oldBefore returns the time before which an old blob was put. Such a blob is old by our clock and by the place's
// clock. If the two clocks are more than maxApart apart, one of them is wrong and nobody knows which, so oldBefore
// returns an error and no blob is old.
func (r *remoteStore) oldBefore(ctx context.Context) (time.Time, error) {
	now := r.h.Now()
	there, err := r.remote.Owned(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if apart := there.Sub(now); apart.Abs() > maxApart {
		return time.Time{}, fmt.Errorf("%w: its clock is %v from that of this machine, more than %v; next step: set the clock", ErrUnavailable, apart.Round(time.Second), maxApart)
	}
	if there.Before(now) {
		now = there
	}
	return now.Add(-r.o.Grace), nil
}

// sweepAtOnce is the number of old blobs that a sweep gathers before it checks them, several at a time.
const sweepAtOnce = 1000

// remoteSweep is a running sweep.
type remoteSweep struct {
	r      *remoteStore
	before time.Time // blobs that were last put or renewed before it are old
	old    []Address

	mu    sync.Mutex // guards the fields below
	live  func(Address) bool
	swept Swept
}

func (s *remoteSweep) visit(ctx context.Context, info *RemoteInfo) error {
	if !info.Changed.Before(s.before) {
		return nil
	}
	if s.old = append(s.old, info.Address); len(s.old) < sweepAtOnce {
		return nil
	}
	return s.flush(ctx)
}

func (s *remoteSweep) flush(ctx context.Context) error {
	err := atOnce(ctx, s.old, func(ctx context.Context, _ int, a Address) error { return s.sweep(ctx, a) })
	s.old = s.old[:0]
	return err
}

// isLive calls live for one blob at a time.
func (s *remoteSweep) isLive(a Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live(a)
}

// sweep removes one blob if live and its age allow it.
func (s *remoteSweep) sweep(ctx context.Context, a Address) error {
	r := s.r
	release, err := r.ownFor(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	if s.isLive(a) {
		return nil
	}
	info, err := r.remote.Stat(ctx, a)
	if errors.Is(err, ErrNotFound) {
		return s.sweepRenewal(ctx, a)
	}
	if err != nil {
		return err
	}
	if err := r.addRenewal(ctx, &info); err != nil || !info.Changed.Before(s.before) {
		return err
	}
	droppedSHA1, err := r.drop(ctx, &info)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept.Blobs++
	s.swept.Bytes += info.Size
	if droppedSHA1 {
		s.swept.SHA1s++
	}
	return nil
}
