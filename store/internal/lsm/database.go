package lsm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system.
type FS = vfs.FS

// Options configure how a database is opened. The zero value works.
type Options struct {
	// ReadOnly opens an existing database for reading only.
	ReadOnly bool
	// Logf receives Pebble's log; nil drops it.
	Logf func(format string, args ...any)
	// Fatalf is called when Pebble cannot continue, because it failed to write its manifest. Fatalf must not return
	// normally. If it is nil, the process panics.
	Fatalf func(format string, args ...any)
	// Flushed, if set, is called whenever Pebble has written a memtable to disk. It runs on one of Pebble's goroutines
	// and must not block it.
	Flushed func()
	// Failing, if set, is called with each write that failed in Pebble's background. Pebble retries at once, and holds
	// a lock during the call, so a slow Failing slows the retries down.
	Failing func(err error)
	// Damaged, if set, is called with each damaged block that is read.
	Damaged func(err error)
	// OpenFiles is about how many files are kept open; 0: Pebble's default of a thousand. Fewer than 74 count as 74.
	OpenFiles int
	// FS replaces the file system in tests.
	FS FS
	// MemtableBytes and CacheBytes replace the sizes below in tests.
	MemtableBytes, CacheBytes int
}

const (
	// A smaller memtable halves the speed of bulk creates, because payload pages then reach the disk in many small
	// tables.
	memtableBytes = 64 << 20
	// cacheBytes is the size of Pebble's block cache. It serves rows that the caches above it have dropped. Pebble
	// takes the memory of memtables out of it: usually one that fills and one that is being written.
	cacheBytes = 2*memtableBytes + 64<<20
	// filterBits is how many bits each key adds to the filter of its table: one lookup in a hundred of an absent key
	// reads the table in vain. Most lookups of unique keys, idempotency keys and deleted batches find nothing. Without
	// a filter each would read a table of every level.
	filterBits = 10
	// maxRetainedBatch is larger than most commits.
	maxRetainedBatch = 16 << 20
)

// DB is a Pebble database without a write-ahead log. One goroutine commits and closes; any goroutine may read and
// flush.
type DB struct {
	pebble   *pebble.DB
	cache    *pebble.Cache
	outgoing *pebble.Batch // of Commit, which reuses its memory
	failing  func(error)   // Options.Failing
	readers  gate          // views and flushes; Close waits for them
	flushing atomic.Bool   // a Flush waits for Pebble to begin
	full     fullDisk
}

// Open opens the database in dir, or creates it.
func Open(dir string, o Options) (*DB, error) {
	size := func(given, standard int) int64 {
		if given > 0 {
			return int64(given)
		}
		return int64(standard)
	}
	d := &DB{cache: pebble.NewCache(size(o.CacheBytes, cacheBytes)), failing: o.Failing}
	options := &pebble.Options{
		FS:                          markerFS{cmp.Or(o.FS, vfs.Default)},
		Cache:                       d.cache,
		ReadOnly:                    o.ReadOnly,
		ErrorIfNotExists:            o.ReadOnly,
		DisableWAL:                  true,
		MaxOpenFiles:                o.OpenFiles,
		MemTableSize:                uint64(size(o.MemtableBytes, memtableBytes)),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      logger{o.Logf, o.Fatalf},
		EventListener:               o.listener(&d.full),
	}
	if o.ReadOnly {
		options.FS = unlockedFS{options.FS}
	}
	options.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	err := checkMarker(options.FS, dir)
	if err == nil {
		d.pebble, err = pebble.Open(dir, options)
	}
	if err != nil {
		d.cache.Unref()
		return nil, openError(options.FS, dir, err)
	}
	d.outgoing = d.pebble.NewBatch(pebble.WithMaxRetainedSizeBytes(maxRetainedBatch))
	return d, nil
}

// unlockedFS does not create a lock file, because a read-only file system refuses one.
type unlockedFS struct{ vfs.FS }

func (unlockedFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (o *Options) listener(full *fullDisk) *pebble.EventListener {
	return &pebble.EventListener{
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil && o.Flushed != nil {
				o.Flushed()
			}
		},
		// By default Pebble ends the process. Instead, the reader of the block gets an error, and Damaged is called.
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			if o.Damaged != nil {
				o.Damaged(&Error{"read", fmt.Errorf("file %s: %w", i.Path, i.Details)})
			}
		},
		BackgroundError: func(err error) {
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
				full.met()
			}
			if o.Failing != nil {
				o.Failing(&Error{"write in the background", err})
			}
		},
	}
}

// openError describes why an open failed, whether the cause is damage, and what to do next.
func openError(files vfs.FS, dir string, err error) error {
	if environmental(err) {
		return fmt.Errorf("open store %s: %w", dir, err)
	}
	if torn := tornManifest(files, dir); torn != "" {
		err = fmt.Errorf("%w; %s", err, torn)
	}
	return fmt.Errorf("open store: %w: directory %s: %w; %s", ErrDamaged, dir, err, nextRebuild)
}

// Peeked is the result of Peek.
type Peeked struct {
	Value []byte // of the key; nil if there is no database or no such key
	Torn  string // where its manifest becomes unreadable; "" if all of it can be read. If not "", Value may be old
}

// Peek reads one key of the database in dir, and changes nothing.
//
// A power cut may cut off a manifest. Pebble then opens the database in the older state that the rest of the manifest
// describes. As soon as it is open for writing, Pebble removes all tables that this older state does not name.
func Peek(dir, key string, o Options) (p Peeked, err error) {
	defer Catch(&err)
	files := cmp.Or(o.FS, vfs.Default)
	if _, err := files.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err := checkMarker(files, dir); err != nil {
		return p, openError(files, dir, err)
	}
	p.Torn = tornManifest(files, dir)
	db, err := pebble.Open(dir, &pebble.Options{
		FS: files, ReadOnly: true, ErrorIfNotExists: true, DisableWAL: true, FormatMajorVersion: pebble.FormatNewest,
		CacheSize: 1 << 20, Logger: logger{o.Logf, o.Fatalf},
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}, // by default Pebble ends the process
	})
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return p, nil
	} else if err != nil {
		return p, openError(files, dir, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	value, closer, err := db.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return p, nil
	}
	Fail("read", err)
	p.Value = append([]byte{}, value...)
	return p, closer.Close()
}

// View opens a view of the last commit. The caller must close it.
func (d *DB) View() View { return d.view(&pebble.IterOptions{UseL6Filters: true}) }

// DurableView opens a view of the rows that are on disk. The caller must close it.
func (d *DB) DurableView() View {
	return d.view(&pebble.IterOptions{OnlyReadGuaranteedDurable: true})
}

func (d *DB) view(o *pebble.IterOptions) View {
	if !d.readers.enter() {
		Fail("open view", ErrClosed)
	}
	it, err := d.pebble.NewIter(o)
	if err != nil {
		d.readers.leave()
		Fail("open view", err)
	}
	return View{it, d.readers.leave}
}

// Flush makes Pebble begin to write its memtable to disk, unless an earlier call still waits for Pebble to begin. It
// does not wait. Pebble calls Options.Flushed when the flush is done.
func (d *DB) Flush() error {
	if !d.flushing.CompareAndSwap(false, true) {
		return nil
	}
	if !d.readers.enter() {
		d.flushing.Store(false)
		return ErrClosed
	}
	go func() { // Pebble may hold back a caller that requests a flush for as long as a writer
		defer d.readers.leave()
		defer d.flushing.Store(false)
		if _, err := d.pebble.AsyncFlush(); err != nil && d.failing != nil {
			d.failing(&Error{"flush", err})
		}
	}()
	return nil
}

// FlushWait writes Pebble's memtable to disk and waits for it. On a full disk it waits without a time limit.
func (d *DB) FlushWait() error { return <-d.flushed() }

// FlushWithin is FlushWait with a time limit. It also gives up when the disk is full. Pebble may still finish the flush
// later.
func (d *DB) FlushWithin(limit time.Duration) error { return d.within(limit, "flush", d.flushed) }

// flushed returns a channel that receives the outcome of a flush.
func (d *DB) flushed() <-chan error {
	outcome := make(chan error, 1)
	if !d.readers.enter() {
		outcome <- ErrClosed
		return outcome
	}
	go func() {
		defer d.readers.leave()
		var err error
		if failed := d.pebble.Flush(); failed != nil {
			err = &Error{"flush", failed}
		}
		outcome <- err
	}()
	return outcome
}

// within begins an operation and waits for its outcome. It gives up after limit, or when the disk is full, because
// Pebble then retries for ever.
func (d *DB) within(limit time.Duration, op string, begin func() <-chan error) error {
	full := d.full.next()
	outcome := begin()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-outcome:
		return err
	case <-full:
		return &Error{op, syscall.ENOSPC}
	case <-timer.C:
		return &Error{op, fmt.Errorf("not done within %v", limit)}
	}
}

// fullDisk notifies the goroutines that wait for Pebble when a write in the background meets a full disk.
type fullDisk struct {
	mu      sync.Mutex    // guards waiting
	waiting chan struct{} // closed by the next such write; nil: nobody waits
}

func (f *fullDisk) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting == nil {
		f.waiting = make(chan struct{})
	}
	return f.waiting
}

func (f *fullDisk) met() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting != nil {
		close(f.waiting)
		f.waiting = nil
	}
}

// Checkpoint copies the last commit, or a later one, to dir, which must not exist. The copy's tables are hard links to
// the database's tables, or copies if the file system does not support links. Checkpoint first flushes the memtable,
// and fails if that takes longer than limit.
func (d *DB) Checkpoint(dir string, limit time.Duration) error {
	if err := d.FlushWithin(limit); err != nil {
		return err
	}
	if !d.readers.enter() {
		return ErrClosed
	}
	defer d.readers.leave()
	if err := d.pebble.Checkpoint(dir); err != nil {
		return &Error{"checkpoint", err}
	}
	return nil
}

// DiskBytes returns the size of the database on disk; 0 once it is closed.
func (d *DB) DiskBytes() uint64 {
	if !d.readers.enter() {
		return 0
	}
	defer d.readers.leave()
	return d.pebble.Metrics().DiskSpaceUsage()
}

// DropCache drops the cached blocks.
func (d *DB) DropCache() {
	release := d.cache.Reserve(int(d.cache.MaxSize()))
	release()
}

// Drain waits for open views and flushes, and refuses new ones with ErrClosed.
func (d *DB) Drain() { d.readers.close() }

// Close drains and closes the database. It drops uncommitted writes. It waits for running compactions: without a time
// limit if the disk takes no writes.
func (d *DB) Close() error {
	d.Drain()
	err := errors.Join(d.outgoing.Close(), d.pebble.Close())
	d.cache.Unref()
	return err
}

// CloseWithin calls close, which calls Close. It gives up waiting after limit, or when the disk is full. The directory
// then stays in use until the process ends.
func (d *DB) CloseWithin(limit time.Duration, close func() error) error {
	return d.within(limit, "close", func() <-chan error {
		outcome := make(chan error, 1)
		go func() { outcome <- close() }()
		return outcome
	})
}

// logger passes Pebble's log on. Pebble calls Fatalf when it cannot continue, and by default ends the process there.
type logger struct{ infof, fatalf func(string, ...any) }

func (l logger) Infof(format string, args ...any) {
	if l.infof != nil {
		l.infof(format, args...)
	}
}

func (l logger) Errorf(format string, args ...any) { l.Infof(format, args...) }

func (l logger) Fatalf(format string, args ...any) {
	if l.fatalf != nil {
		l.fatalf(format, args...)
	}
	panic(fmt.Sprintf("store: "+format, args...))
}

// Pebble returns the underlying database, for tests that damage it or read its metrics.
func (d *DB) Pebble() *pebble.DB { return d.pebble }
