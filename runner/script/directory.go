package script

import (
	"fmt"
	"os"
	"path/filepath"
)

const directoryPrefix = "daybook-scripts-"

// directory is where the contexts of a pool have their directories. It is locked while the pool lives, so that the next
// pool can remove it if this one is killed.
type directory struct {
	path string
	lock *os.File // nil where the system has no locks
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

// newDirectory creates a directory in parent, and removes those of runners that were killed.
func newDirectory(parent string) (*directory, error) {
	removeAbandoned(parent)
	for try := 0; ; try++ {
		path, err := os.MkdirTemp(parent, directoryPrefix)
		if err != nil {
			return nil, fmt.Errorf("create a directory for scripts: %w", err)
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("create a directory for scripts: %w", err)
		}
		lock, ok := lockDirectory(path)
		if ok {
			if _, err := os.Stat(path); err == nil {
				return &directory{path, lock}, nil
			}
			lock.Close() // another runner took it for abandoned before it was locked
		} else if try == 3 {
			return &directory{path, nil}, nil // the file system has no locks
		}
		os.Remove(path)
	}
}

// removeAbandoned removes the directories of runners that have ended without doing so.
func removeAbandoned(parent string) {
	abandoned, _ := filepath.Glob(filepath.Join(parent, directoryPrefix+"*"))
	for _, path := range abandoned {
		if lock, ok := lockDirectory(path); ok {
			os.RemoveAll(path) // the next runner tries again
			lock.Close()
		}
	}
}

// remove removes the directory.
func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	if d.lock != nil {
		d.lock.Close()
	}
	if err != nil {
		return fmt.Errorf("remove the directory of scripts: %w", err)
	}
	return nil
}
