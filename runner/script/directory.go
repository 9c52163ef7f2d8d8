package script

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/daybookq/daybook/internal/filelock"
	"github.com/daybookq/daybook/runner/disk"
)

const directoryPrefix = "daybook-scripts-"

// directory holds the directories of a pool's contexts. The pool locks it, so that a later pool can remove it if this
// runner is killed.
type directory struct {
	path string
	lock io.Closer // nil if the system lacks locks
}

// cacheDirectory returns the parent of pools' directories: the user's cache or, if that cannot be created, the
// directory for temporary files.
func cacheDirectory() string {
	if cache, err := os.UserCacheDir(); err == nil {
		if cache = filepath.Join(cache, "daybook"); os.MkdirAll(cache, 0o700) == nil {
			return cache
		}
	}
	return os.TempDir()
}

// newDirectory creates a directory in parent, and removes directories of runners that were killed. Another runner may
// take the new directory for an abandoned one and remove it before this one locks it. Then newDirectory tries again.
func newDirectory(parent string) (*directory, error) {
	removeAbandoned(parent)
	for range 1000 {
		path, err := os.MkdirTemp(parent, directoryPrefix)
		if err != nil {
			return nil, fmt.Errorf("create a directory for scripts: %w", err)
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("create a directory for scripts: %w", err)
		}
		lock, err := filelock.Open(path)
		switch {
		case err == nil:
			if _, err := os.Stat(path); err == nil {
				return &directory{path, lock}, nil
			}
			lock.Close() // another runner removed it
		case !errors.Is(err, filelock.ErrLocked) && !errors.Is(err, fs.ErrNotExist):
			return &directory{path, nil}, nil // this system or file system does not support locks
		}
	}
	return nil, errors.New("create a directory for scripts: other runners removed 1000 new ones")
}

// removeAbandoned removes the directories that killed runners have left behind.
func removeAbandoned(parent string) {
	abandoned, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*"))
	for _, path := range abandoned {
		if lock, err := filelock.Open(path); err == nil {
			_ = disk.RemoveTree(path) // the next runner tries again
			lock.Close()
		}
	}
}

// remove removes the directory.
func (d *directory) remove() error {
	err := disk.RemoveTree(d.path)
	if d.lock != nil {
		d.lock.Close()
	}
	if err != nil {
		return fmt.Errorf("remove the directory of scripts: %w", err)
	}
	return nil
}
