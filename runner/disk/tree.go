package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// ReserveBytes is the space that jobs' code must leave free on a disk.
const ReserveBytes = 256 << 20

// atOnce is the number of entries to read from a directory in one call.
const atOnce = 512

// RemoveTree removes a directory that no job's code uses any more, or a file or link. It returns nil if there is
// nothing at path. Directories in the tree may lack permissions, and may be nested deeper than the longest path.
// Therefore it first moves nested directories to the top, and keeps few files open. It follows no links, and removes
// nothing outside path.
func RemoveTree(path string) error {
	if err := removeTree(path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

func removeTree(path string) error {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return notThere(err)
	}
	defer parent.Close()
	name := filepath.Base(path)
	info, err := parent.Lstat(name)
	if err != nil {
		return notThere(err)
	}
	if !info.IsDir() {
		return parent.Remove(name)
	}
	if err := open(parent, name, info); err != nil {
		return err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(info, now) {
		return errors.Join(errors.New("something else has taken the place of the directory"), err)
	}
	if err := removeAll(root); err != nil {
		return err
	}
	return parent.Remove(name)
}

// notThere returns nil if err says that there is no file, and otherwise err.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// open gives the user all permissions on a directory.
func open(in *os.Root, name string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o700 == 0o700 {
		return nil
	}
	return in.Chmod(name, 0o700)
}

// removeAll removes everything in a directory.
func removeAll(root *os.Root) error {
	prefix, moved := rand.Text()+"-", 0
	return removeEntries(root, ".", func(name string) error {
		return removeEntries(root, name, func(below string) error {
			moved++
			return root.Rename(below, prefix+strconv.Itoa(moved))
		})
	})
}

// removeEntries removes everything in a directory, and then the directory, unless it is the root. It passes each
// subdirectory to each, which removes it or moves it away.
func removeEntries(root *os.Root, dir string, each func(name string) error) error {
	for {
		f, err := root.Open(dir)
		if err != nil {
			return err
		}
		entries, err := f.ReadDir(atOnce)
		f.Close()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := e.Name()
			if dir != "." {
				name = dir + "/" + name
			}
			info, err := root.Lstat(name)
			switch {
			case err != nil:
				return err
			case !info.IsDir():
				err = root.Remove(name)
			default:
				if err = open(root, name, info); err == nil {
					err = each(name)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	if dir == "." {
		return nil
	}
	return root.Remove(dir)
}
