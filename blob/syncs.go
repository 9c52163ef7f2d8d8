package blob

import (
	"errors"
	"os"
	"sync"
)

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
	s     *Dir
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
func (s *Dir) newSyncs() (*syncs, error) {
	whole, err := open(s.uploads())
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

// addPath is add for a file that is not open.
func (y *syncs) addPath(path string) error {
	if y.byWhole {
		return nil
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	return y.add(f)
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
