package journal

import (
	"errors"
	"os"

	"github.com/tidwall/wal"
)

// Hooks are the file system calls whose failure this package survives. Tests replace them to make them fail, to
// slow them down, or to observe their order. A nil field means the real call.
type Hooks struct {
	OpenLog  func(path string, segmentBytes int) (*wal.Log, error)
	Write    func(*wal.Log, *wal.Batch) error
	Sync     func(*wal.Log) error
	Create   func(path string) (*os.File, error) // makes a file that must not exist
	WriteAt  func(f *os.File, b []byte, offset int64) error
	SyncFile func(*os.File) error
	Truncate func(*os.File, int64) error
	Rename   func(from, to string) error
	Remove   func(path string) error
}

func (h *Hooks) fill() {
	if h.OpenLog == nil {
		h.OpenLog = OpenLog
	}
	if h.Write == nil {
		h.Write = (*wal.Log).WriteBatch
	}
	if h.Sync == nil {
		h.Sync = (*wal.Log).Sync
	}
	if h.Create == nil {
		h.Create = create
	}
	if h.WriteAt == nil {
		h.WriteAt = func(f *os.File, b []byte, offset int64) error {
			_, err := f.WriteAt(b, offset)
			return err
		}
	}
	if h.SyncFile == nil {
		h.SyncFile = (*os.File).Sync
	}
	if h.Truncate == nil {
		h.Truncate = (*os.File).Truncate
	}
	if h.Rename == nil {
		h.Rename = os.Rename
	}
	if h.Remove == nil {
		h.Remove = os.Remove
	}
}

// OpenLog opens a volume for appending. It sets NoSync because the committer syncs once for all entries of a group. It
// sets AllowEmpty because a volume begins with an empty segment, whose name is the index of its first entry. tidwall/wal
// keeps the tail segment and recent segments in memory for its readers, which this package does not use. So OpenLog sets
// SegmentCacheSize to 1, the smallest number that the library accepts.
func OpenLog(path string, segmentBytes int) (*wal.Log, error) {
	return wal.Open(path, &wal.Options{
		NoSync: true, SegmentSize: segmentBytes, LogFormat: wal.Binary, SegmentCacheSize: 1, AllowEmpty: true,
		DirPerms: 0o750, FilePerms: 0o640,
	})
}

func create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
}

// syncPath makes a file durable or, for a directory, the names in it.
func (h *Hooks) syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(h.SyncFile(f), f.Close())
}
