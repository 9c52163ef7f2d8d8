package journal

import (
	"errors"
	"os"

	"github.com/tidwall/wal"
)

// hooks are the file system calls whose failure this package must survive, as fields, so that a test can make them fail or
// watch their order. The zero value is filled with the real ones.
type hooks struct {
	openLog  func(path string, segmentBytes int) (*wal.Log, error)
	write    func(*wal.Log, *wal.Batch) error
	sync     func(*wal.Log) error
	syncFile func(*os.File) error
	truncate func(*os.File, int64) error
	remove   func(path string) error
}

func (h *hooks) fill() {
	if h.openLog == nil {
		h.openLog = openLog
	}
	if h.write == nil {
		h.write = (*wal.Log).WriteBatch
	}
	if h.sync == nil {
		h.sync = (*wal.Log).Sync
	}
	if h.syncFile == nil {
		h.syncFile = (*os.File).Sync
	}
	if h.truncate == nil {
		h.truncate = (*os.File).Truncate
	}
	if h.remove == nil {
		h.remove = os.Remove
	}
}

// openLog opens a volume for appending. NoSync, because a group is many entries and one fsync; AllowEmpty, because a volume
// begins with an empty segment, whose name is the index of its first entry. tidwall/wal keeps the tail segment and the
// last few in memory for readers it does not have here: one is the least it can be told.
func openLog(path string, segmentBytes int) (*wal.Log, error) {
	return wal.Open(path, &wal.Options{
		NoSync: true, SegmentSize: segmentBytes, LogFormat: wal.Binary, SegmentCacheSize: 1, AllowEmpty: true,
		DirPerms: 0o750, FilePerms: 0o640,
	})
}

// syncPath makes a file or, for a directory, the names in it durable.
func (h *hooks) syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(h.syncFile(f), f.Close())
}
