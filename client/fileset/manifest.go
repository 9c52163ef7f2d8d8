package fileset

import (
	"fmt"
	"slices"
	"strings"
)

// Manifest lists the files of a tree.
type Manifest struct {
	Files []File
	// EmptyDirectories are the paths of the directories without files and subdirectories. All other directories follow
	// from the paths of the files.
	EmptyDirectories []string
}

// File is a file of a tree.
type File struct {
	Path       string  `json:"path"`
	Blob       Address `json:"blob"`
	Size       int64   `json:"size"` // of the blob, in bytes
	Executable bool    `json:"executable,omitzero"`
}

// Bytes returns the sum of the sizes of the files.
func (m *Manifest) Bytes() (sum int64) {
	for i := range m.Files {
		sum += m.Files[i].Size
	}
	return sum
}

// Sort puts the files and directories in the order that Check requires.
func (m *Manifest) Sort() {
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(m.EmptyDirectories)
}

// Check returns an error unless Encode accepts the manifest. The error wraps ErrPath and names the path, or wraps
// ErrTooLarge and names the limit, or wraps ErrManifest for invalid sizes.
func (m *Manifest) Check() error {
	if n := len(m.Files) + len(m.EmptyDirectories); n > MaxFiles {
		return fmt.Errorf("%w: it has %d files and empty directories; the maximum is %d", ErrTooLarge, n, MaxFiles)
	}
	t := newTree(len(m.Files))
	sizes := make(map[Address]int64, len(m.Files))
	for i := range m.Files {
		f := &m.Files[i]
		if i > 0 && m.Files[i-1].Path > f.Path {
			return fmt.Errorf("%w: %s is not in the order of the paths", ErrManifest, quoted(f.Path))
		}
		if f.Size < 0 || f.Size > MaxFileBytes {
			return fmt.Errorf("%w: %s has %d bytes; a file has 0 to %d", ErrTooLarge, quoted(f.Path), f.Size, int64(MaxFileBytes))
		}
		if size, ok := sizes[f.Blob]; ok && size != f.Size {
			return fmt.Errorf("%w: %s has %d bytes, and another file with the same blob has %d", ErrManifest, quoted(f.Path), f.Size, size)
		}
		sizes[f.Blob] = f.Size
		if err := t.addFile(f.Path); err != nil {
			return err
		}
	}
	for _, f := range m.Files {
		if err := t.addParents(f.Path); err != nil {
			return err
		}
	}
	for i, path := range m.EmptyDirectories {
		if i > 0 && m.EmptyDirectories[i-1] > path {
			return fmt.Errorf("%w: directory %s is not in the order of the paths", ErrManifest, quoted(path))
		}
		if err := t.addEmpty(path); err != nil {
			return err
		}
	}
	for _, path := range m.EmptyDirectories {
		if err := t.addParents(path); err != nil {
			return err
		}
	}
	return nil
}

// tree is the set of paths that a manifest has so far.
type tree struct {
	files map[string]bool // false: an empty directory
	dirs  map[string]struct{}
}

func newTree(files int) *tree {
	return &tree{make(map[string]bool, files), map[string]struct{}{}}
}

func (t *tree) addFile(path string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	if _, ok := t.files[path]; ok {
		return fmt.Errorf("%w: %s occurs twice", ErrPath, quoted(path))
	}
	t.files[path] = true
	return nil
}

// addEmpty adds an empty directory. All files must have been added before.
func (t *tree) addEmpty(path string) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	_, isDir := t.dirs[path]
	isFile, listed := t.files[path]
	switch {
	case listed && isFile:
		return fmt.Errorf("%w: %s is a file and a directory", ErrPath, quoted(path))
	case listed:
		return fmt.Errorf("%w: directory %s occurs twice", ErrPath, quoted(path))
	case isDir:
		return fmt.Errorf("%w: directory %s is listed as empty, but is not", ErrPath, quoted(path))
	}
	t.files[path] = false
	return nil
}

// addParents adds the parents of a path. All files must have been added before.
func (t *tree) addParents(path string) error {
	for dir := Parent(path); dir != ""; dir = Parent(dir) {
		if _, ok := t.dirs[dir]; ok {
			return nil // its parents are known, too
		}
		if isFile, ok := t.files[dir]; ok && isFile {
			return fmt.Errorf("%w: %s is a file and a directory", ErrPath, quoted(dir))
		} else if ok {
			return fmt.Errorf("%w: directory %s is listed as empty, but is not", ErrPath, quoted(dir))
		}
		if len(t.dirs) == MaxDirectories {
			return fmt.Errorf("%w: its paths have more than %d directories", ErrTooLarge, MaxDirectories)
		}
		t.dirs[dir] = struct{}{}
	}
	return nil
}
