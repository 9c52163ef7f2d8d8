package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookq/daybook/internal/filelock"
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
	// RemoteRequests is the number of concurrent requests to a bucket that a batch or Missing makes: a request takes tens
	// of milliseconds. Each copy has one descriptor at a time in addition to its request, so batchFiles covers all of them.
	RemoteRequests = batchFiles
)

// Options of a Store. The zero value works.
type Options struct {
	MaxBytes     int64         // of one blob; 0: MaxBlobBytes
	QuotaBytes   int64         // of all blobs and uploads together; 0: no quota
	ClientBytes  int64         // of the blobs and uploads of each client; 0: as QuotaBytes
	ReserveBytes int64         // that stay free on the disk; 0: 1 GiB, and at most a quarter of the disk
	Grace        time.Duration // time for which Sweep keeps an unnamed blob; 0: 24 h
	MaxFiles     int           // files that are open at a time for blobs; 0: 512; at least MinFiles
	Hooks        Hooks
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

func (o *Options) setDefaults() {
	if o.MaxBytes == 0 {
		o.MaxBytes = MaxBlobBytes
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = defaultFiles
	}
}

// Store keeps the blobs of all clients in a backend. Methods take the client; "" stands for the blobs that all clients
// share. A client reads its blobs and the shared ones, and changes only its own. The files of uploads are in a
// directory of the store.
//
// Methods may be called by many goroutines. Each can also return ErrClient for a name that no client can have, and
// ErrUnavailable if a bucket does not answer. Methods that store something return ErrClients if MaxClients other
// clients have blobs.
type Store struct {
	disk
	o       Options
	lock    io.Closer
	backend Backend
	remote  bool // each call of the backend takes a request to another place
	// trustsSyncFS: syncfs reports every error.
	trustsSyncFS bool
	// MaxBatch, MaxUploads, MaxAllUploads and MaxClients; tests set less.
	maxBatch, maxUploads, maxAllUploads, maxClients int
	checkpointEvery                                 int64

	verified *verified
	files    *openFiles

	mu      sync.Mutex         // guards the fields below
	used    int64              // bytes of the blobs and of unfinished uploads. Only count changes it. Invariant: at most the quota, unless that was lowered
	clients map[string]*client // those that have, or may just be getting, blobs or uploads; and ""
	uploads map[string]*Upload
	busy    map[Key]chan struct{}
	// unsyncedAge are renewed blobs whose new age may not be durable. There is at most one entry for each blob.
	unsyncedAge map[Key]bool
	// unsure has the counted bytes of blobs that may or may not be stored, because a call of the backend has failed.
	unsure map[Key]int64
}

// OpenDir opens the store in a directory, and makes the directory if it is missing; its parent must exist. It removes
// uploads of a killed process, except for resumable ones. It makes the names of all stored files durable, because that
// process may have been killed before it did. It returns filelock.ErrLocked if another Store has the directory.
func OpenDir(ctx context.Context, dir string, o Options) (*Store, error) {
	return open(ctx, dir, nil, o)
}

// Open opens the store in a bucket. The directory receives its uploads, as in OpenDir. Close closes the backend, and so
// does a failed Open.
func Open(ctx context.Context, dir string, backend Backend, o Options) (*Store, error) {
	return open(ctx, dir, backend, o)
}

func open(ctx context.Context, dir string, backend Backend, o Options) (opened *Store, err error) {
	trusted := o.Hooks.SyncFS != nil
	o.Hooks.fill()
	s := &Store{disk: disk{filepath.Clean(dir), &o.Hooks}, backend: backend, remote: backend != nil,
		maxBatch: MaxBatch, maxUploads: MaxUploads, maxAllUploads: MaxAllUploads, maxClients: MaxClients, checkpointEvery: checkpointEvery,
		verified: newVerified(), clients: map[string]*client{"": {}}, uploads: map[string]*Upload{},
		busy: map[Key]chan struct{}{}, unsyncedAge: map[Key]bool{}, unsure: map[Key]int64{}}
	defer func() {
		if err != nil {
			opened, err = nil, errors.Join(fmt.Errorf("open blobs: %w", err), s.Close())
		}
	}()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	s.o, s.files = o, newOpenFiles(o.MaxFiles)
	if err := s.makeDir(s.dir); err != nil {
		return nil, err
	}
	if s.lock, err = filelock.Open(s.dir); err != nil {
		return nil, err
	}
	s.trustsSyncFS = trusted || canTrustSyncFS(s.dir)
	if o.ReserveBytes == 0 {
		_, total, err := s.h.Free(s.dir)
		if err != nil {
			return nil, err
		}
		s.o.ReserveBytes = int64(min(maxReserve, total/reserveShare))
	}
	if err := s.makeUploads(); err != nil {
		return nil, err
	}
	var local *directory
	if !s.remote {
		local = &directory{disk: s.disk, verified: s.verified, made: map[string]bool{}, unsynced: map[Key]bool{}}
		if err := local.makeFolders(""); err != nil {
			return nil, err
		}
		s.backend = local
	}
	usage, err := s.backend.Usage(ctx)
	if err != nil {
		return nil, fmt.Errorf("count blobs: %w", err)
	}
	for name, bytes := range usage {
		if name != "" && CheckClient(name) != nil {
			continue // another program's
		}
		s.count(s.clientOf(name), bytes)
	}
	if !s.remote {
		if err := s.syncNames(local); err != nil {
			return nil, err
		}
	}
	return s, s.openUploads(ctx)
}

// makeUploads makes the directory of uploads, and removes the files of a killed process from it.
func (s *Store) makeUploads() error {
	if err := s.makeDir(s.uploadsDir()); err != nil {
		return err
	}
	return names(s.uploadsDir(), func(name string) error {
		if !strings.HasPrefix(name, tempPrefix) {
			return nil
		}
		return s.h.Remove(filepath.Join(s.uploadsDir(), name))
	})
}

// syncNames makes the names of all stored files durable.
func (s *Store) syncNames(d *directory) (err error) {
	y, err := s.newSyncs()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.end()) }()
	for client := range s.clients {
		for _, kind := range []Kind{Blobs, SHA1s} {
			f, err := openFile(d.folder(client, kind))
			if errors.Is(err, os.ErrNotExist) {
				continue // the client has only uploads, or a process was killed before it had made all directories
			}
			if err == nil {
				err = y.add(f)
			}
			if err != nil {
				return err
			}
		}
	}
	return y.wait()
}

// Close lets another Store open the directory. No other method may be running, or be called later. Verifications that
// continue without a reader end.
func (s *Store) Close() (err error) {
	if s.backend != nil {
		err = s.backend.Close()
	}
	s.verified.close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

// IsRemote reports whether each read of a blob takes requests to another place. A reader of many blobs then reads
// several at a time.
func (s *Store) IsRemote() bool { return s.remote }

// own waits until no other goroutine owns the key, or until ctx ends, and returns a function that gives it up. A
// goroutine that changes anything under a digest must own the digest. The order is: blobs before SHA-1 entries, and
// several of one kind in ascending order. A copy to a bucket can own its key for minutes.
func (s *Store) own(ctx context.Context, k Key) (release func(), err error) {
	for {
		release, other := s.tryOwn(k)
		if release != nil {
			return release, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryOwn is own without a wait. If another goroutine owns the key, it returns no function, and a channel that is closed
// when that ends.
func (s *Store) tryOwn(k Key) (release func(), other <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, taken := s.busy[k]; taken {
		return nil, other
	}
	done := make(chan struct{})
	s.busy[k] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, k)
		close(done)
	}, nil
}

// ownAll owns the blobs of files and their entries of the table.
func (s *Store) ownAll(ctx context.Context, client string, all []*incoming) (release func(), err error) {
	keys := make([]Key, 0, 2*len(all))
	for _, u := range all {
		keys = append(keys, blobKey(client, u.Address), sha1Key(client, u.SHA1))
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if a.Kind != b.Kind {
			return strings.Compare(string(a.Kind), string(b.Kind)) // blobs, and then entries
		}
		return strings.Compare(a.Name, b.Name)
	})
	keys = slices.Compact(keys) // two contents may have the same SHA-1
	releases := make([]func(), 0, len(keys))
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	for _, k := range keys {
		r, err := s.own(ctx, k)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, r)
	}
	return release, nil
}

// atOnce calls do for all items, RemoteRequests at a time if the store is remote and otherwise one after the other, and
// returns the first error. After an error it begins no more calls, and waits for the running ones: a request that is
// broken off may still be carried out.
func atOnce[T any](ctx context.Context, s *Store, all []T, do func(ctx context.Context, i int, item T) error) error {
	if !s.remote {
		for i, item := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(ctx, i, item); err != nil {
				return err
			}
		}
		return nil
	}
	good, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var running sync.WaitGroup
	next := make(chan int)
	for range min(RemoteRequests, len(all)) {
		running.Go(func() {
			for i := range next {
				if err := do(ctx, i, all[i]); err != nil {
					fail(err)
				}
			}
		})
	}
	for i := range all {
		if good.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	running.Wait()
	return context.Cause(good)
}

func compareAddresses(a, b Address) int { return bytes.Compare(a[:], b[:]) }
