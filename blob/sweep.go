package blob

import (
	"context"
	"fmt"
)

// Sweep removes the blobs that are older than Options.Grace and that live does not name, and the SHA-1 entries of blobs
// that are gone. It also removes expired resumable uploads. The age of a blob counts from its last Put or Missing.
//
// Sweep calls live for one blob at a time, while no Put of this blob can end; live must not call the Store. A producer
// has put a blob, or called Missing with it, before it creates a job that names the blob. So a job that live does not
// know yet names only young blobs.
func (s *Dir) Sweep(ctx context.Context, live func(Address) bool) (swept Swept, err error) {
	err = names(s.blobs(), func(name string) error {
		a, ok := parseName(name)
		if err := ctx.Err(); err != nil || !ok {
			return err
		}
		size, gone, err := s.sweep(a, live)
		if gone {
			swept.Blobs++
			swept.Bytes += size
		}
		return err
	})
	if err == nil {
		err = names(s.sha1s(), func(name string) error {
			ref, parseErr := Parse(name)
			if err := ctx.Err(); err != nil || parseErr != nil || ref.SHA1 == nil {
				return err
			}
			dropped, err := s.dropSHA1(*ref.SHA1)
			if dropped {
				swept.SHA1s++
			}
			return err
		})
	}
	if err == nil {
		swept.Uploads, err = s.dropResumables(func(state UploadState) bool { return s.h.Now().After(state.Expires) })
	}
	if err == nil && swept.Blobs > 0 {
		err = s.syncPath(s.blobs())
	}
	if err != nil {
		return swept, fmt.Errorf("sweep blobs: %w", err)
	}
	return swept, nil
}

// sweep removes one blob if its age and live allow it. It owns the address while it reads the age and removes the file.
// So a Put or Missing happens either before, and the blob is young, or after, and finds no blob.
func (s *Dir) sweep(a Address, live func(Address) bool) (size int64, gone bool, err error) {
	defer s.own(a)()
	info, there, err := s.stat(a)
	if !there || err != nil || s.h.Now().Sub(info.ModTime()) <= s.o.Grace || live(a) {
		return 0, false, err
	}
	if err := s.remove(a, info.Size()); err != nil {
		return 0, false, err
	}
	return info.Size(), true, nil
}
