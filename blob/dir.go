package blob

import (
	"context"
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
)

const (
	// MaxBlobBytes is the default of Options.MaxBytes.
	MaxBlobBytes = 64 << 30
	// maxReserve and reserveShare are the default of Options.ReserveBytes. It is more than the 512 MiB that the engine
	// keeps free, so that the server refuses uploads before it refuses jobs.
	maxReserve, reserveShare = 1 << 30, 4
	// defaultGrace is the time for which a store keeps a blob that no job names: a producer puts its blobs first and
	// creates its jobs later.
	defaultGrace = 24 * time.Hour
	// renewShare is the part of the grace after which Missing renews the age of a blob. So a repeated request for the
	// same list costs no fsyncs, and its blobs have at least 23 of 24 hours left.
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
	ClientBytes  int64         // of the blobs and uploads of each client; 0: as QuotaBytes. For OpenClients
	ReserveBytes int64         // that stay free on the disk; 0: 1 GiB, and at most a quarter of the disk
	Grace        time.Duration // time for which Sweep keeps an unnamed blob; 0: 24 h
	MaxFiles     int           // files that are open at a time for blobs; 0: 512; at least MinFiles
	Hooks        Hooks

	remote      Remote // nil: the blobs are in the directory
	remoteBytes int64  // of the blobs in the remote
}

// Validate refuses values that make no sense.
func (o *Options) Validate() error {
	for _, n := range []int64{o.MaxBytes, o.QuotaBytes, o.ClientBytes, o.ReserveBytes, int64(o.Grace)} {
		if n < 0 {
			return fmt.Errorf("blob: invalid options: %d is negative; use 0 for the default", n)
		}
	}
	if o.MaxFiles != 0 && o.MaxFiles < MinFiles {
		return fmt.Errorf("blob: invalid options: MaxFiles is %d; use 0 for the default, or at least %d", o.MaxFiles, MinFiles)
	}
	return nil
}

var _ Store = (*Dir)(nil)

// Dir is a store in a directory. Its methods may be called by many goroutines.
type Dir struct {
	dir  string
	o    Options
	h    Hooks
	lock io.Closer // nil in a directory of Clients
	all  *tally    // nil: this store is alone
	// remote has the blobs of this store, and the directory has only uploads. nil: the directory has the blobs.
	remote *remoteStore
	// trustsSyncFS: syncfs reports every error.
	trustsSyncFS bool
	// MaxBatch and MaxUploads; tests set less.
	maxBatch, maxUploads int
	checkpointEvery      int64

	verified *verified  // shared by all clients, in a directory of Clients
	files    *openFiles // likewise

	mu   sync.Mutex // guards the fields below
	used int64      // bytes of the blobs and of unfinished uploads. Only count changes it. Invariant: at most the quota, unless that was lowered
	busy map[any]chan struct{}
	// unsynced are blobs whose file exists, but is not durable yet. For all reads they are absent. If the last fsync of
	// a Put fails and the file cannot be removed, the blob stays here.
	unsynced map[Address]bool
	// unsyncedAge are renewed blobs whose new age may not be durable. There is at most one entry for each blob.
	unsyncedAge map[Address]bool
	resumables  map[string]*resumable
	batches     int // unfinished batches
}

func (s *Dir) blobs() string          { return filepath.Join(s.dir, "blobs", "sha256") }
func (s *Dir) path(a Address) string  { return filepath.Join(s.blobs(), hex.EncodeToString(a[:])) }
func (s *Dir) sha1s() string          { return filepath.Join(s.dir, "sha1") }
func (s *Dir) sha1Path(x SHA1) string { return filepath.Join(s.sha1s(), x.String()) }
func (s *Dir) uploads() string        { return filepath.Join(s.dir, "uploads") }

// asStore returns the Store that the directory belongs to.
func (s *Dir) asStore() Store {
	if s.remote != nil {
		return s.remote
	}
	return s
}

// Used returns the bytes of all blobs and of unfinished uploads.
func (s *Dir) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

func (s *Dir) isUnsynced(a Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsynced[a]
}

// own waits until no other goroutine owns the key, an Address or a SHA1, and returns a function that gives it up. A
// goroutine that changes anything under a digest must own the digest. The order is: Addresses before SHA1s, and several
// of one kind in ascending order.
func (s *Dir) own(key any) (release func()) {
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
	return s.take(key)
}

// take makes the caller the owner of a free key. The caller holds the mutex.
func (s *Dir) take(key any) (release func()) {
	done := make(chan struct{})
	s.busy[key] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
		close(done)
	}
}

// stat returns the file at an address, and whether it is a blob that reads may see. It reads the file before the mark
// in unsynced, because a Put sets the mark before it makes the file visible.
func (s *Dir) stat(a Address) (info fs.FileInfo, there bool, err error) {
	info, err = os.Lstat(s.path(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("look at blob: %w", err)
	}
	return info, info.Mode().IsRegular() && !s.isUnsynced(a), nil
}

// Stat describes a blob that is stored durably, or returns ErrNotFound. It does not read the blob.
func (s *Dir) Stat(_ context.Context, a Address) (Info, error) {
	info, there, err := s.stat(a)
	if err != nil {
		return Info{}, err
	}
	if !there {
		return Info{}, notFound(a)
	}
	return infoOf(a, info), nil
}

func notFound(a Address) error { return fmt.Errorf("%w: %s", ErrNotFound, a) }

func infoOf(a Address, info fs.FileInfo) Info {
	return Info{Address: a, Size: info.Size(), Changed: info.ModTime()}
}

// Delete removes a blob at once, even if a job names it. It returns ErrNotFound if the blob is not stored.
func (s *Dir) Delete(_ context.Context, a Address) error {
	defer s.own(a)()
	info, there, err := s.stat(a)
	if err != nil {
		return err
	}
	if !there {
		return notFound(a)
	}
	if err := s.remove(a, info.Size()); err != nil {
		return err
	}
	return s.syncPath(s.blobs())
}

// remove removes a blob's file. The caller owns the address. The name may reappear after a power cut, which does no
// harm. The SHA-1 entry stays until the next sweep, without a blob.
func (s *Dir) remove(a Address, size int64) error {
	if err := s.h.Remove(s.path(a)); err != nil {
		return fmt.Errorf("remove blob: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(-size)
	delete(s.unsynced, a)
	delete(s.unsyncedAge, a)
	return nil
}

// List returns up to limit blobs in the order of their addresses. It begins after a given address, or with the first
// blob if that is nil. It reads all names of the directory each time.
func (s *Dir) List(ctx context.Context, after *Address, limit int) ([]Info, error) {
	if err := checkList(limit); err != nil {
		return nil, err
	}
	var found []Address
	first := func() { // keeps only blobs that can be in the answer
		slices.SortFunc(found, func(a, b Address) int { return slices.Compare(a[:], b[:]) })
		found = found[:min(len(found), limit)]
	}
	err := names(s.blobs(), func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
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
			infos = append(infos, infoOf(a, info))
		}
		err = errors.Join(err, statErr)
	}
	return infos, err
}

func checkList(limit int) error {
	if limit < 1 || limit > MaxList {
		return fmt.Errorf("list blobs: limit %d is not between 1 and %d", limit, MaxList)
	}
	return nil
}

// names calls visit with the names in a directory, in no order. It may leave out names that are added or removed during
// the call.
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
func open(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|noFollow, 0) }

// syncPath makes a file durable, or the names in a directory.
func (s *Dir) syncPath(path string) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	return errors.Join(s.h.Sync(f), f.Close())
}

// writeFile stores a small file durably, and replaces a file of the same name. It opens the directory before the
// rename, so that the directory's fsync reports every error since then: the kernel reports an error once to each open
// file.
func (s *Dir) writeFile(path string, content string) (err error) {
	dir, err := open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	f, err := s.writeTemp(content)
	if err != nil {
		return err
	}
	err = errors.Join(s.h.Sync(f), f.Close())
	if err == nil {
		err = s.h.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, s.h.Remove(f.Name()))
	}
	return s.h.Sync(dir)
}

// writeTemp writes a small file in the directory of uploads. The returned file is open and not durable.
func (s *Dir) writeTemp(content string) (*os.File, error) {
	f, err := os.CreateTemp(s.uploads(), tempPrefix+"*")
	if err != nil {
		return nil, err
	}
	if _, err := s.h.Write(f, []byte(content)); err != nil {
		return nil, errors.Join(err, f.Close(), s.h.Remove(f.Name()))
	}
	return f, nil
}
