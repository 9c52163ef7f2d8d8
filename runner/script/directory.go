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

// directory is where the contexts of a pool have their directories. It is locked while the pool lives, so that the next
// pool can remove it if this one is killed.
type directory struct {
	path string
	lock io.Closer // nil where the system has no locks
}

// cacheDirectory returns where pools have their directories: in the user's cache, or in the directory for temporary files
// if there is none.
func cacheDirectory() string {
	if cache, err := os.UserCacheDir(); err == nil {
		if cache = filepath.Join(cache, "daybook"); os.MkdirAll(cache, 0o700) == nil {
			return cache
		}
	}
	return os.TempDir()
}

// newDirectory creates a directory in parent, and removes those of runners that were killed. A runner that does the same
// at this moment may take the new directory for an abandoned one before it is locked: then another one is created.
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
			lock.Close() // another runner has removed it
		case !errors.Is(err, filelock.ErrLocked) && !errors.Is(err, fs.ErrNotExist):
			return &directory{path, nil}, nil // this system, or this file system, has no locks
		}
	}
	return nil, errors.New("create a directory for scripts: other runners removed 1000 new ones")
}

// removeAbandoned removes the directories of runners that have ended without doing so.
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
