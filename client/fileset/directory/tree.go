package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/daybookq/daybook/client/fileset"
)

// makeTree creates the directories of a fileset. Existing ones must be directories, not symbolic links to directories.
func makeTree(root *os.Root, m *fileset.Manifest) error {
	made := map[string]struct{}{"": {}}
	for i := range m.Files {
		if err := makeDirectory(root, fileset.Parent(m.Files[i].Path), made); err != nil {
			return err
		}
	}
	for _, path := range m.EmptyDirectories {
		if err := makeDirectory(root, path, made); err != nil {
			return err
		}
	}
	return nil
}

// makeDirectory creates a directory and its parents.
func makeDirectory(root *os.Root, path string, made map[string]struct{}) error {
	if _, ok := made[path]; ok {
		return nil
	}
	if err := makeDirectory(root, fileset.Parent(path), made); err != nil {
		return err
	}
	err := root.Mkdir(path, 0o777) // the umask of the process applies
	if errors.Is(err, fs.ErrExist) {
		var info fs.FileInfo
		if info, err = root.Lstat(path); err == nil && !info.IsDir() {
			err = wrongKind(path, info.Mode(), "the fileset has a directory there; remove it, or choose another directory")
		}
	}
	if err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	made[path] = struct{}{}
	return nil
}
