package blob

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// The table of SHA-1 digests is a directory. The file sha1/<40 hex> has the line `sha256:<64 hex>`. It is written like a
// blob, to another name first, so that no power cut leaves a part of it.

// Resolve returns the address that ref names. It returns ErrNotFound if ref is a SHA-1 and no blob with it was put, or
// if ref is zero. It does not look for the blob itself.
func (s *Store) Resolve(ref Ref) (Address, error) {
	switch {
	case ref.SHA256 != nil:
		return *ref.SHA256, nil
	case ref.SHA1 != nil:
		return s.lookup(*ref.SHA1)
	}
	return Address{}, fmt.Errorf("%w: no address", ErrNotFound)
}

// lookup reads an entry of the table.
func (s *Store) lookup(x SHA1) (a Address, err error) {
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
	if errors.Is(err, fs.ErrNotExist) { // a sweep has removed it just now
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

// keepSHA1 makes an entry durable. The caller owns the address. If the entry names another blob that exists, it stays:
// of two contents with the same SHA-1, the first keeps it.
func (s *Store) keepSHA1(x SHA1, a Address) error {
	defer s.own(x)()
	old, err := s.lookup(x)
	var damaged *DamagedError
	switch {
	case err == nil && old != a:
		_, there, err := s.stat(old)
		if there || err != nil {
			return err
		}
	case err == nil:
		// A process that was killed may have written it, and not yet made its name durable; Open does that, but a Put
		// whose fsync failed may also have left it.
		return s.syncPath(s.sha1s())
	case !errors.Is(err, ErrNotFound) && !errors.As(err, &damaged):
		return err
	}
	return s.writeFile(s.sha1Path(x), a.String()+"\n")
}

// dropSHA1 removes an entry if it names a blob that does not exist.
func (s *Store) dropSHA1(x SHA1) (dropped bool, err error) {
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

// ignoreDamage returns nil for entries that are gone or damaged: the next Put of the content replaces the latter.
func ignoreDamage(err error) error {
	var damaged *DamagedError
	if errors.Is(err, ErrNotFound) || errors.As(err, &damaged) {
		return nil
	}
	return err
}
