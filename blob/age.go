package blob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Missing returns the blobs that are not stored, in the order of its argument. A later sweep keeps the stored ones as
// if they had just been put. So a producer puts only the missing ones and then creates its jobs.
//
// If many blobs are old, Missing renews them with one syncfs where the store trusts syncfs, and otherwise with many
// concurrent fsyncs.
func (s *Dir) Missing(ctx context.Context, all []Address) (missing []Address, err error) {
	sizes, err := s.Sizes(ctx, all)
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

// Sizes does the work of Missing, and returns the size of each blob, or NotStored.
func (s *Dir) Sizes(ctx context.Context, all []Address) (sizes []int64, err error) {
	var renewed []Address
	var y *syncs
	var free func()
	defer func() {
		if y != nil {
			err = errors.Join(err, y.end())
			free()
		}
		if err != nil {
			sizes = nil
		}
	}()
	sizes = make([]int64, len(all))
	for i, a := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		size, old, err := s.lookAge(a)
		if old {
			if y == nil {
				if free, err = s.files.take(ctx, renewFiles); err != nil {
					return nil, err
				}
				if y, err = s.newSyncs(); err != nil {
					free()
					return nil, fmt.Errorf("renew blobs: %w", err)
				}
			}
			if size, err = s.renew(a, y); size != NotStored {
				renewed = append(renewed, a)
			}
		}
		if err != nil {
			return nil, err
		}
		sizes[i] = size
	}
	if y != nil {
		if err := y.wait(); err != nil {
			return nil, noSpace("renew blobs", err)
		}
	}
	s.ageIsDurable(renewed)
	return sizes, nil
}

// lookAge returns the size of a blob, and whether the blob must be renewed.
func (s *Dir) lookAge(a Address) (size int64, old bool, err error) {
	defer s.own(a)()
	info, there, err := s.stat(a)
	if !there || err != nil {
		return NotStored, false, err
	}
	return info.Size(), !s.isYoung(a, info.ModTime()), nil
}

// renew makes a blob young again, and returns its size. The new age is durable after y.wait.
func (s *Dir) renew(a Address, y *syncs) (size int64, err error) {
	defer s.own(a)()
	info, there, err := s.stat(a)
	if !there || err != nil {
		return NotStored, err
	}
	if err := s.setAge(a, s.h.Now()); err != nil {
		return info.Size(), fmt.Errorf("renew blob: %w", err)
	}
	if err := y.addPath(s.path(a)); err != nil {
		return info.Size(), fmt.Errorf("renew blob: %w", err)
	}
	return info.Size(), nil
}

// setAge sets the age of a stored blob. The caller owns the address, or the blob cannot be swept. The new age is not
// durable: until ageIsDurable is called, other calls renew the blob as if it were old. A sweep believes the new age at
// once.
func (s *Dir) setAge(a Address, now time.Time) error {
	path := s.path(a)
	s.mu.Lock()
	s.unsyncedAge[a] = true
	s.mu.Unlock()
	before, err := idOfPath(a, path)
	if err == nil {
		err = os.Chtimes(path, now, now)
	}
	if err != nil {
		return err
	}
	after, err := idOfPath(a, path)
	if err != nil {
		return err
	}
	s.verified.renewed(before, after)
	return nil
}

// ageIsDurable records that the current ages of blobs are on the disk, or that the blobs are gone.
func (s *Dir) ageIsDurable(all []Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range all {
		delete(s.unsyncedAge, a)
	}
}

// isYoung reports whether a blob needs no renewal, because its age is recent and durable.
func (s *Dir) isYoung(a Address, changed time.Time) bool {
	if !s.isRecent(changed) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unsyncedAge[a]
}

// isRecent reports whether an age needs no renewal.
func (s *Dir) isRecent(changed time.Time) bool { return s.h.Now().Sub(changed) <= s.o.Grace/renewShare }
