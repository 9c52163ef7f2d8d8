package blob

import (
	"context"
	"errors"
	"time"
)

// A sweep of a bucket finds the entry of the SHA-1 table by the metadata of the blob that it removes. If a server was
// killed in between, or an upload has failed after its entry was written, an entry without a blob stays. To find these,
// a sweep must read each entry, which is a request. So it does that seldom, and for a part of the table.
const (
	// tableEvery is the time between two checks of a store's table by sweeps.
	tableEvery = 24 * time.Hour
	// tableAtOnce is the number of old entries that a sweep checks then. The next check continues after the last one.
	tableAtOnce = 10_000
)

// table removes old entries of the table whose blobs are gone, if a check is due.
func (s *remoteSweep) table(ctx context.Context) error {
	r := s.r
	if !r.muTable.TryLock() {
		return nil // another sweep does it
	}
	defer r.muTable.Unlock()
	now := r.h.Now()
	if now.Sub(r.tableAt).Abs() < tableEvery {
		return nil
	}
	var old []SHA1
	err := r.remote.SHA1s(ctx, r.tableTo, func(x SHA1, changed time.Time) error {
		if changed.Before(s.before) {
			old = append(old, x)
		}
		if len(old) == tableAtOnce {
			return errListed
		}
		return nil
	})
	if err != nil && err != errListed {
		return err
	}
	more := err == errListed
	if err := atOnce(ctx, old, func(ctx context.Context, _ int, x SHA1) error { return s.sweepSHA1(ctx, x) }); err != nil {
		return err
	}
	r.tableAt, r.tableTo = now, nil
	if more {
		r.tableTo = &old[len(old)-1]
	}
	return nil
}

// sweepSHA1 removes an entry if it names a blob that does not exist. A Put owns the address, writes the entry, and then
// stores the blob.
func (s *remoteSweep) sweepSHA1(ctx context.Context, x SHA1) error {
	r := s.r
	a, err := r.remote.SHA1(ctx, x)
	if err != nil {
		return ignoreDamage(err)
	}
	if _, err := r.remote.Stat(ctx, a); !errors.Is(err, ErrNotFound) {
		return err
	}
	release, err := r.ownFor(ctx, a)
	if err != nil {
		return err
	}
	defer release()
	releaseSHA1, err := r.ownFor(ctx, x)
	if err != nil {
		return err
	}
	defer releaseSHA1()
	if now, err := r.remote.SHA1(ctx, x); err != nil || now != a {
		return ignoreDamage(err)
	}
	if _, err := r.remote.Stat(ctx, a); !errors.Is(err, ErrNotFound) {
		return err
	}
	if err := r.remote.RemoveSHA1(ctx, x); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept.SHA1s++
	return nil
}

// sweepRenewal removes the old renewal of a blob that does not exist. The caller owns the address.
func (s *remoteSweep) sweepRenewal(ctx context.Context, a Address) error {
	at, err := s.r.remote.Renewed(ctx, a)
	if err != nil || !at.Before(s.before) {
		return ignoreNotFound(err)
	}
	return s.r.remote.Remove(ctx, a)
}

func (r *remoteStore) ownSHA1(ctx context.Context, x SHA1) (Address, error) {
	return r.remote.SHA1(ctx, x)
}

func (r *remoteStore) ownSHA1s(ctx context.Context, visit func(SHA1) error) (listed bool, err error) {
	return true, r.remote.SHA1s(ctx, nil, func(x SHA1, _ time.Time) error { return visit(x) })
}
