package blob

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxBlobBytes is the default of Options.MaxBytes.
	MaxBlobBytes = 64 << 30
	// maxReserve and reserveShare are the default of Options.ReserveBytes. It is more than the 512 MiB that the engine
	// keeps free, so that uploads are refused before jobs are.
	maxReserve, reserveShare = 1 << 30, 4
	// defaultGrace is how long a blob that no job names is kept: a producer puts its blobs first and its jobs later.
	defaultGrace = 24 * time.Hour
	// renewShare is the part of the grace after which Missing renews the age of a blob. So a list that is asked for
	// again and again costs no fsyncs, and its blobs have at least 23 of 24 hours left.
	renewShare = 24
	// MaxList is the largest limit of List.
	MaxList = 10_000

	bufferBytes = 1 << 20 // of each upload and of each read that verifies
	namesBytes  = 1024    // names of a directory that are read at a time
)

// Options of a Store. The zero value works.
type Options struct {
	MaxBytes     int64         // of one blob; 0: MaxBlobBytes
	QuotaBytes   int64         // of all blobs and uploads together; 0: no quota
	ReserveBytes int64         // that stay free on the disk; 0: 1 GiB, and at most a quarter of the disk
	Grace        time.Duration // how long Sweep keeps a blob that nothing names; 0: 24 h
	Hooks        Hooks
}

// Validate refuses values that make no sense.
func (o *Options) Validate() error {
	for _, n := range []int64{o.MaxBytes, o.QuotaBytes, o.ReserveBytes, int64(o.Grace)} {
		if n < 0 {
			return fmt.Errorf("blob: invalid options: %d is negative; use 0 for the default", n)
		}
	}
	return nil
}

// Info describes a stored blob.
type Info struct {
	Address Address
	SHA1    SHA1 // only from Put
	Size    int64
	Changed time.Time // when it was put or renewed last
	Existed bool      // only from Put: the store had it before, intact or damaged
}

// Store is a directory of blobs. Its methods may be called by many goroutines.
type Store struct {
	dir  string
	o    Options
	h    Hooks
	lock *os.File

	verified verified

	mu   sync.Mutex // guards the fields below
	used int64      // bytes of the blobs and of the uploads under way. Invariant: at most the quota, unless that was lowered
	busy map[any]chan struct{}
	// unsynced are blobs whose file is there, but not yet durable. For all reads they are absent. A Put whose last
	// fsync failed leaves its blob here if it cannot remove the file.
	unsynced map[Address]bool
}

func (s *Store) blobs() string          { return filepath.Join(s.dir, "blobs", "sha256") }
func (s *Store) path(a Address) string  { return filepath.Join(s.blobs(), hex.EncodeToString(a[:])) }
func (s *Store) sha1s() string          { return filepath.Join(s.dir, "sha1") }
func (s *Store) sha1Path(x SHA1) string { return filepath.Join(s.sha1s(), x.String()) }
func (s *Store) uploads() string        { return filepath.Join(s.dir, "uploads") }

// Used returns the bytes of all blobs and of the uploads under way.
func (s *Store) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *Store) isUnsynced(a Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsynced[a]
}

// own waits until no other goroutine owns the key, an Address or a SHA1, and returns a function that gives it up.
// Whoever changes what is stored under a digest owns it. The order is: an Address before a SHA1, and never two of one
// kind.
func (s *Store) own(key any) (release func()) {
	for {
		s.mu.Lock()
		other, taken := s.busy[key]
		if !taken {
			break
		}
		s.mu.Unlock()
		<-other
	}
	defer s.mu.Unlock()
	done := make(chan struct{})
	s.busy[key] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
		close(done)
	}
}

// stat returns what is stored at an address, and whether it is a blob that reads may see. The file is looked at before
// the mark, since a Put sets the mark before it makes the file visible.
func (s *Store) stat(a Address) (info fs.FileInfo, there bool, err error) {
	info, err = os.Lstat(s.path(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at blob: %w", err)
	}
	return info, info.Mode().IsRegular() && !s.isUnsynced(a), nil
}

// Has reports whether a blob is stored durably. It does not read the blob.
func (s *Store) Has(a Address) (bool, error) {
	_, there, err := s.stat(a)
	return there, err
}

// Missing returns which of the blobs are not stored, in the order of its argument. A sweep that begins later keeps the
// others as if they had just been put. So a producer puts only the missing ones and then creates its jobs.
func (s *Store) Missing(all []Address) ([]Address, error) {
	var missing []Address
	for _, a := range all {
		there, err := s.renew(a)
		if err != nil {
			return nil, err
		}
		if !there {
			missing = append(missing, a)
		}
	}
	return missing, nil
}

// renew makes a blob young again, durably.
func (s *Store) renew(a Address) (there bool, err error) {
	defer s.own(a)()
	info, there, err := s.stat(a)
	now := s.h.Now()
	if !there || err != nil || now.Sub(info.ModTime()) <= s.o.Grace/renewShare {
		return there, err
	}
	if err := os.Chtimes(s.path(a), now, now); err != nil {
		return false, fmt.Errorf("renew blob: %w", err)
	}
	return true, s.syncPath(s.path(a))
}

// Delete removes a blob at once, whatever names it. It returns ErrNotFound if there is none.
func (s *Store) Delete(a Address) error {
	defer s.own(a)()
	info, there, err := s.stat(a)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("%w: %s", ErrNotFound, a)
	}
	if err := s.remove(a, info.Size()); err != nil {
		return err
	}
	return s.syncPath(s.blobs())
}

// remove removes a blob's file. The caller owns the address. The name may come back after a power cut, which does no
// harm. The SHA-1 entry stays until the next sweep, and leads nowhere.
func (s *Store) remove(a Address, size int64) error {
	if err := s.h.Remove(s.path(a)); err != nil {
		return fmt.Errorf("remove blob: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= size
	delete(s.unsynced, a)
	return nil
}

// List returns up to limit blobs in the order of their addresses, those after a given one, or from the first if it is
// nil. It reads all names of the directory each time.
func (s *Store) List(after *Address, limit int) ([]Info, error) {
	if limit < 1 || limit > MaxList {
		return nil, fmt.Errorf("list blobs: limit %d is not between 1 and %d", limit, MaxList)
	}
	var found []Address
	first := func() { // keeps only those that can be in the answer
		slices.SortFunc(found, func(a, b Address) int { return slices.Compare(a[:], b[:]) })
		found = found[:min(len(found), limit)]
	}
	err := names(s.blobs(), func(name string) error {
		a, ok := parseName(name)
		if ok && (after == nil || slices.Compare(a[:], after[:]) > 0) {
			if found = append(found, a); len(found) > limit+namesBytes {
				first()
			}
		}
		return nil
	})
	first()
	var infos []Info
	for _, a := range found {
		info, there, statErr := s.stat(a)
		if there {
			infos = append(infos, Info{Address: a, Size: info.Size(), Changed: info.ModTime()})
		}
		err = errors.Join(err, statErr)
	}
	return infos, err
}

// names calls visit with the names in a directory, in no order. Names that are added or removed meanwhile may be left
// out.
func names(dir string, visit func(name string) error) (err error) {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for {
		some, err := f.Readdirnames(namesBytes)
		for _, name := range some {
			if err := visit(name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// open opens a file of the store for reading. It follows no symbolic link.
func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0) }

// syncPath makes a file durable; for a directory, the names in it.
func (s *Store) syncPath(path string) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	return errors.Join(s.h.Sync(f), f.Close())
}

// replace renames a file, which is durable, and makes its new name durable. It calls renamed between the two. The
// directory is opened before the rename, so that this fsync reports every error since then: the kernel reports an error
// once to each open file.
func (s *Store) replace(from, to string, renamed func()) error {
	dir, err := open(filepath.Dir(to))
	if err != nil {
		return err
	}
	err = s.h.Rename(from, to)
	if err == nil {
		renamed()
		err = s.h.Sync(dir)
	}
	return errors.Join(err, dir.Close())
}

// writeFile stores a small file durably, in place of what has the name.
func (s *Store) writeFile(path string, content string) (err error) {
	f, err := os.CreateTemp(s.uploads(), tempPrefix+"*")
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			err = errors.Join(err, s.h.Remove(f.Name()))
		}
	}()
	_, err = s.h.Write(f, []byte(content))
	if err == nil {
		err = s.h.Sync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.replace(f.Name(), path, func() { renamed = true })
}
