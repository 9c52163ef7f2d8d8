package blob

import (
	"os"
	"time"
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
		h.Free = statfs
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
