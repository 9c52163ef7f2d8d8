package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/daybookq/daybook/internal/containerjob"
)

// Bounds of the directories and files of a workspace. A walk keeps one file open for each level.
const (
	maxDepth   = containerjob.MaxDepth
	maxEntries = 1_000_000
	atOnce     = 512 // entries read from a directory per call
)

var errTree = errors.New("the workspace is too large")

// usage is the disk space and the number of files below a directory.
type usage struct {
	bytes   int64 // on disk
	entries int
}

// measure measures the files below a directory, which a container may be changing. It adds the bytes of deleted files
// that are still open. It returns errTree if there are too many bytes, files or levels, and stops when ctx ends.
func measure(ctx context.Context, root *os.Root, mostBytes, deleted int64) (u usage, err error) {
	if deleted > mostBytes {
		return u, fmt.Errorf("%w: files that were deleted and are still open have %d bytes, and all may have %d", errTree, deleted, mostBytes)
	}
	u.bytes = deleted
	err = walk(root, 0, func(_ *os.Root, _ string, info fs.FileInfo) error {
		u.entries++
		u.bytes += diskBytes(info)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case u.bytes > mostBytes:
			return fmt.Errorf("%w: its files have more than %d bytes", errTree, mostBytes)
		case u.entries > maxEntries:
			return fmt.Errorf("%w: it has more than %d files", errTree, maxEntries)
		}
		return nil
	})
	return u, err
}

// give changes the owner of a directory and everything in it.
func give(root *os.Root, user, group int) error {
	if err := root.Lchown(".", user, group); err != nil {
		return err
	}
	return walk(root, 0, func(dir *os.Root, name string, _ fs.FileInfo) error { return dir.Lchown(name, user, group) })
}

// walk visits everything below a directory. It follows no links, and skips files that disappear during the walk.
func walk(dir *os.Root, depth int, visit func(dir *os.Root, name string, info fs.FileInfo) error) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: it has directories in more than %d levels", errTree, maxDepth)
	}
	f, err := dir.Open(".")
	if errors.Is(err, fs.ErrPermission) { // a container can remove the permissions of its own directories
		if err = dir.Chmod(".", 0o700); err == nil {
			f, err = dir.Open(".")
		}
	}
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(atOnce)
		for _, e := range entries {
			if err := enter(dir, e.Name(), depth, visit); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return gone(err)
		}
	}
}

// enter visits an entry of a directory, and everything below it.
func enter(dir *os.Root, name string, depth int, visit func(dir *os.Root, name string, info fs.FileInfo) error) error {
	info, err := dir.Lstat(name)
	if err == nil {
		err = visit(dir, name, info)
	}
	if err != nil || !info.IsDir() {
		return gone(err)
	}
	sub, err := openDirectory(dir, name)
	if errors.Is(err, fs.ErrPermission) {
		if err = dir.Chmod(name, 0o700); err == nil {
			sub, err = openDirectory(dir, name)
		}
	}
	if err != nil {
		if now, lookErr := dir.Lstat(name); lookErr != nil || !now.IsDir() {
			return nil // the container has replaced the directory
		}
		return gone(err)
	}
	defer sub.Close()
	return walk(sub, depth+1, visit)
}

// gone returns nil if the error means that a file no longer exists, or otherwise the error.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
