package wasi

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookq/daybook/job/digest"
	"github.com/daybookq/daybook/runner/wasi/guest"
)

const (
	// MaxModuleBytes bounds a module. Its machine code takes several times as much memory.
	MaxModuleBytes = 128 << 20
	// DefaultCacheBytes is the default for Settings.CacheBytes.
	DefaultCacheBytes = 2 << 30

	// touchEvery bounds the age of the mtime of a file in use. The files with the oldest mtime are deleted first.
	touchEvery = 10 * time.Minute
	// abandonedAfter is the age at which a temporary file is taken for garbage of a killed runner.
	abandonedAfter = time.Hour
	// reports and temporary are the directories for reports and for unfinished files in the cache.
	reports, temporary = "reports", "tmp"
)

// cache is the directory of modules, machine code and reports. Several runners may share it.
type cache struct {
	dir  string
	most int64

	bytes atomic.Int64 // as of the last trim

	mu      sync.Mutex
	touched map[string]time.Time // files by path
}

// newCache opens a cache, creates its directories, and trims it.
func newCache(dir string, most int64) (*cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache of WASI modules: %w", err)
	}
	for _, name := range []string{guest.Modules, guest.Compiled, reports, temporary} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, fmt.Errorf("create the cache of WASI modules: %w", err)
		}
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("open the cache of WASI modules: %w", err)
	}
	c := &cache{dir: dir, most: most, touched: map[string]time.Time{}}
	left, _ := os.ReadDir(filepath.Join(dir, temporary))
	for _, e := range left {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			os.RemoveAll(filepath.Join(dir, temporary, e.Name())) // on an error, the next runner tries again
		}
	}
	return c, c.trim() // CacheBytes may have been larger before
}

// module returns the path of a module.
func (c *cache) module(digits string) string {
	return filepath.Join(c.dir, guest.Modules, digits+guest.Suffix)
}

// has reports whether the cache has a file, and marks the file as used.
func (c *cache) has(path string) bool {
	now := time.Now()
	c.mu.Lock()
	recent := now.Sub(c.touched[path]) < touchEvery
	if !recent && len(c.touched) > 10_000 {
		clear(c.touched)
	}
	c.mu.Unlock()
	if recent {
		_, err := os.Stat(path)
		return err == nil
	}
	if os.Chtimes(path, now, now) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched[path] = now
	return true
}

// add returns these errors for bytes that it does not accept.
var (
	errDigest   = errors.New("the bytes that arrived have another digest")
	errTooLarge = fmt.Errorf("it has more than %d MiB, the maximum for a module", MaxModuleBytes>>20)
)

// add adds a module, and returns the hex digits of its SHA-256. It returns errDigest if the content does not have the
// digest want, unless want is zero, and errTooLarge if it is longer than MaxModuleBytes.
func (c *cache) add(r io.Reader, want digest.Ref) (digits string, err error) {
	f, err := os.CreateTemp(filepath.Join(c.dir, temporary), "module-")
	if err != nil {
		return "", &machineError{fmt.Errorf("store a module: %w", err)}
	}
	defer os.Remove(f.Name()) // fails after the rename
	defer f.Close()
	sum, old := sha256.New(), sha1.New()
	n, err := io.Copy(io.MultiWriter(toDisk{f}, sum, old), io.LimitReader(r, MaxModuleBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("store a module: %w", err)
	case n > MaxModuleBytes:
		return "", errTooLarge
	case want.SHA256 != nil && [sha256.Size]byte(sum.Sum(nil)) != *want.SHA256, want.SHA1 != nil && [sha1.Size]byte(old.Sum(nil)) != *want.SHA1:
		return "", errDigest
	}
	if err := f.Close(); err != nil {
		return "", &machineError{fmt.Errorf("store a module: %w", err)}
	}
	digits = hex.EncodeToString(sum.Sum(nil))
	// No fsync is needed: each process verifies the files that it loads.
	if err := os.Rename(f.Name(), c.module(digits)); err != nil {
		return "", &machineError{fmt.Errorf("store a module: %w", err)}
	}
	c.has(c.module(digits))
	if err := c.trim(); err != nil {
		return "", &machineError{err}
	}
	return digits, nil
}

// toDisk writes to a file. It marks its errors as machineErrors, to distinguish them from errors of the reader that
// supplies the bytes.
type toDisk struct{ *os.File }

func (d toDisk) Write(b []byte) (int, error) {
	n, err := d.File.Write(b)
	if err != nil {
		err = &machineError{err}
	}
	return n, err
}

// trim deletes the files unused for the longest time while the cache is too large. Processes can still read a deleted
// file that they have open; the next user fetches or compiles it again.
func (c *cache) trim() error {
	type file struct {
		path  string
		bytes int64
		used  time.Time
	}
	var files []file
	var sum int64
	err := filepath.WalkDir(c.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // another runner deleted it
			return nil
		case err != nil:
			return err
		case e.IsDir() && path == filepath.Join(c.dir, temporary):
			return fs.SkipDir
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if err == nil {
			files = append(files, file{path, info.Size(), info.ModTime()})
			sum += info.Size()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for old files in the cache of WASI modules: %w", err)
	}
	slices.SortFunc(files, func(a, b file) int { return a.used.Compare(b.used) })
	for len(files) > 3 && sum > c.most { // keep one module with its report and machine code, however large
		if err := os.Remove(files[0].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old file from the cache of WASI modules: %w", err)
		}
		sum -= files[0].bytes
		files = files[1:]
	}
	c.bytes.Store(sum)
	return nil
}

// remove deletes a file, so that the next user fetches or compiles it again.
func (c *cache) remove(path string) {
	os.Remove(path) // if this fails, the next user finds the damage again
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.touched, path)
}

// sumOf returns the hex digits of a file's SHA-256.
func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
