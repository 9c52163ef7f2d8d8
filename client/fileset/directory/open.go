package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrNotRegular: an entry is neither a regular file nor a directory, or is one where the other is needed. The text of the
// returned error names the entry.
var ErrNotRegular = errors.New("directory: not a regular file")

// wrongKind returns the error for a file of the wrong kind.
func wrongKind(path string, mode fs.FileMode, needed string) error {
	kind := "something else"
	switch {
	case mode.IsRegular():
		kind = "a regular file"
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeSymlink != 0:
		kind = "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fmt.Errorf("%w: %q is %s; %s", ErrNotRegular, path, kind, needed)
}

// openRegular opens a regular file for reading. It refuses everything else, even if the file is replaced at the same
// time.
func openRegular(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		if info, statErr := root.Lstat(path); statErr == nil && !info.Mode().IsRegular() {
			return nil, nil, wrongKind(path, info.Mode(), "a fileset has only regular files")
		}
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = wrongKind(path, info.Mode(), "a fileset has only regular files")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}
