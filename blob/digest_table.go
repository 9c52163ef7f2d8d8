package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// The table of SHA-1 digests is a directory. The file sha1/<40 hex> has the line `sha256:<64 hex>`. It is first written
// under another name, like a blob, so a power cut leaves no partial entry.

// Resolve returns the address that ref names. It returns ErrNotFound if ref is zero, or is a SHA-1 with which no blob
// was put. It does not check that the blob itself is stored.
func (s *Dir) Resolve(ctx context.Context, ref Ref) (Address, error) {
	switch {
	case ref.SHA256 != nil:
		return *ref.SHA256, nil
	case ref.SHA1 != nil:
		free, err := s.files.take(ctx, readFiles)
		if err != nil {
			return Address{}, err
		}
		defer free()
		return s.lookup(*ref.SHA1)
	}
	return Address{}, fmt.Errorf("%w: no address", ErrNotFound)
}

// ownSHA1 reads an entry of the table for a collection, which has no files open.
func (s *Dir) ownSHA1(_ context.Context, x SHA1) (Address, error) { return s.lookup(x) }

// ownSHA1s lists nothing, because looking up a file costs little.
func (s *Dir) ownSHA1s(context.Context, func(SHA1) error) (listed bool, err error) { return false, nil }

// lookup reads an entry of the table.
func (s *Dir) lookup(x SHA1) (a Address, err error) {
	path := s.sha1Path(x)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("%w: SHA-1 %s", ErrNotFound, x)
	}
	if err != nil {
		return a, fmt.Errorf("look up SHA-1: %w", err)
	}
	if !info.Mode().IsRegular() {
		return a, &DamagedError{path, "it is not a regular file"}
	}
	f, err := open(path)
	if errors.Is(err, fs.ErrNotExist) { // a sweep has just removed it
		return a, fmt.Errorf("%w: SHA-1 %s", ErrNotFound, x)
	}
	if err != nil {
		return a, fmt.Errorf("look up SHA-1: %w", err)
	}
	defer f.Close() // it was only read
	line := make([]byte, len(a.String())+2)
	n, err := io.ReadFull(f, line)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return a, fmt.Errorf("look up SHA-1: %w", err)
	}
	if ref, err := Parse(string(line[:max(n-1, 0)])); err == nil && ref.SHA256 != nil && string(line[:n]) == ref.SHA256.String()+"\n" {
		return *ref.SHA256, nil
	}
	return a, &DamagedError{path, "it is not one line with an address"}
}

// keepsSHA1 reports whether the table needs no new entry, because it has this entry, or an entry for another blob that
// exists. If two contents have the same SHA-1, the first keeps it.
func (s *Dir) keepsSHA1(x SHA1, a Address) (bool, error) {
	old, err := s.lookup(x)
	if err != nil {
		return false, ignoreDamage(err)
	}
	if old == a {
		return true, nil
	}
	_, there, err := s.stat(old)
	return there, err
}

// dropSHA1 removes an entry if it names a blob that does not exist.
func (s *Dir) dropSHA1(x SHA1) (dropped bool, err error) {
	a, err := s.lookup(x)
	if err != nil {
		return false, ignoreDamage(err)
	}
	defer s.own(a)() // a Put writes the entry before the blob
	defer s.own(x)()
	now, err := s.lookup(x)
	if err != nil || now != a {
		return false, ignoreDamage(err)
	}
	if old, _, err := s.stat(a); old != nil || err != nil {
		return false, err
	}
	return true, s.h.Remove(s.sha1Path(x))
}

// ignoreDamage returns nil for entries that are gone or damaged: the next Put of the content replaces a damaged one.
func ignoreDamage(err error) error {
	var damaged *DamagedError
	if errors.Is(err, ErrNotFound) || errors.As(err, &damaged) {
		return nil
	}
	return err
}
