package blob

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/daybookq/daybook/internal/diskspace"
)

const (
	// tempPrefix is the prefix of the files in uploads that a start removes.
	tempPrefix = "put-"

	bufferBytes = 1 << 20 // of each upload and of each read that verifies
	namesBytes  = 1024    // names of a directory that are read at a time
)

// Hooks are the clock and those file system calls that may fail without ending this package's work. Tests replace them
// to make them fail, or to observe their order. A nil field means the real call.
type Hooks struct {
	Now    func() time.Time
	Free   func(dir string) (free, total uint64, err error) // bytes of the file system
	Write  func(f *os.File, b []byte) (int, error)
	Sync   func(*os.File) error // of a file or a directory
	SyncFS func(*os.File) error // of the file system that has the file; if it is set, batches trust it everywhere
	Rename func(from, to string) error
	Remove func(path string) error
}

func (h *Hooks) fill() {
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.Free == nil {
		h.Free = diskspace.Free
	}
	if h.Write == nil {
		h.Write = (*os.File).Write
	}
	if h.Sync == nil {
		h.Sync = (*os.File).Sync
	}
	if h.SyncFS == nil {
		h.SyncFS = syncFS
	}
	if h.Rename == nil {
		h.Rename = os.Rename
	}
	if h.Remove == nil {
		h.Remove = os.Remove
	}
}

// disk is the directory of a store.
type disk struct {
	dir string
	h   *Hooks
}

func (d *disk) uploadsDir() string { return filepath.Join(d.dir, "uploads") }

// makeDir makes a directory and its name durable, unless the directory exists.
func (d *disk) makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	look := os.Lstat
	if dir == d.dir {
		look = os.Stat // the operator may have linked it to another disk
	}
	info, err := look(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	// If an operator has made it, this process may have no permission to read the parent.
	if err := d.syncPath(filepath.Dir(dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// syncPath makes a file durable, or the names in a directory.
func (d *disk) syncPath(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	return errors.Join(d.h.Sync(f), f.Close())
}

// inDir calls change and makes the names in a directory durable. It opens the directory first, so that the directory's
// fsync reports every error since then: the kernel reports an error once to each open file.
func (d *disk) inDir(path string, change func() error) error {
	dir, err := openFile(path)
	if err != nil {
		return err
	}
	err = change()
	if err == nil {
		if err = d.h.Sync(dir); err != nil {
			err = noSpace("sync "+filepath.Base(path), err)
		}
	}
	return errors.Join(err, dir.Close())
}

// writeFile stores a small file durably, and replaces a file of the same name.
func (d *disk) writeFile(path string, content string) error {
	return d.inDir(filepath.Dir(path), func() error {
		f, err := d.writeTemp(content)
		if err != nil {
			return err
		}
		err = errors.Join(d.h.Sync(f), f.Close())
		if err == nil {
			err = d.h.Rename(f.Name(), path)
		}
		if err != nil {
			return errors.Join(err, d.h.Remove(f.Name()))
		}
		return nil
	})
}

// writeTemp writes a small file in the directory of uploads. The returned file is open and not durable.
func (d *disk) writeTemp(content string) (*os.File, error) {
	f, err := os.CreateTemp(d.uploadsDir(), tempPrefix+"*")
	if err != nil {
		return nil, err
	}
	if _, err := d.h.Write(f, []byte(content)); err != nil {
		return nil, errors.Join(err, f.Close(), d.h.Remove(f.Name()))
	}
	return f, nil
}

// openFile opens a file of the store for reading. It follows no symbolic link.
func openFile(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|noFollow, 0) }

// names calls visit with the names in a directory, in no order. It may leave out names that are added or removed during
// the call.
func names(dir string, visit func(name string) error) (err error) {
	f, err := openFile(dir)
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

// ignoreMissing returns nil if a file that was to be removed does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

const (
	// fewFiles is the largest number of files that are kept open and synced one by one. For so few files, a syncfs
	// would have to wait for the writes of other programs to the disk.
	fewFiles = 16
	// syncers is the number of files that are synced concurrently if the store does not trust one syncfs for all of
	// them. The disk does several of these in about the time of one.
	syncers = 16
)

// syncs makes many files durable with few fsyncs. One goroutine uses it at a time.
type syncs struct {
	s     *Store
	whole *os.File // of the file system. It was opened before the first write, so syncfs reports every error since then

	// The first few files are kept open in few. After those, either one syncfs covers all files, or each file goes into
	// the queue to a goroutine that syncs it.
	few     []*os.File
	byWhole bool
	queue   chan *os.File
	running sync.WaitGroup
	mu      sync.Mutex // guards failed
	failed  error      // the first error of a sync in the queue
}

// newSyncs must be called before the first write to the files.
func (s *Store) newSyncs() (*syncs, error) {
	whole, err := openFile(s.uploadsDir())
	if err != nil {
		return nil, err
	}
	return &syncs{s: s, whole: whole}, nil
}

// add takes over a file that must be durable when wait returns.
func (y *syncs) add(f *os.File) error {
	switch {
	case y.byWhole:
		return f.Close()
	case y.queue != nil:
		y.queue <- f
		return nil
	}
	if y.few = append(y.few, f); len(y.few) <= fewFiles {
		return nil
	}
	few := y.few
	y.few = nil
	if y.s.trustsSyncFS {
		y.byWhole = true
		return closeAll(few)
	}
	y.queue = make(chan *os.File)
	for range syncers {
		y.running.Go(func() {
			for f := range y.queue {
				if err := errors.Join(y.s.h.Sync(f), f.Close()); err != nil {
					y.mu.Lock()
					y.failed = first(y.failed, err)
					y.mu.Unlock()
				}
			}
		})
	}
	for _, f := range few {
		y.queue <- f
	}
	return nil
}

// wait makes all files durable.
func (y *syncs) wait() error {
	switch {
	case y.byWhole:
		return y.s.h.SyncFS(y.whole)
	case y.queue != nil:
		y.endQueue()
		return y.failed
	}
	few := y.few
	y.few = nil
	for i, f := range few {
		if err := y.s.h.Sync(f); err != nil {
			return errors.Join(err, closeAll(few[i:]))
		}
		if err := f.Close(); err != nil {
			return errors.Join(err, closeAll(few[i+1:]))
		}
	}
	return nil
}

// end frees everything.
func (y *syncs) end() error {
	if y.queue != nil {
		y.endQueue()
	}
	few := y.few
	y.few = nil
	return errors.Join(closeAll(few), y.whole.Close())
}

func (y *syncs) endQueue() {
	close(y.queue)
	y.running.Wait()
	y.queue = nil
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func closeAll(files []*os.File) (err error) {
	for _, f := range files {
		err = first(err, f.Close())
	}
	return err
}
