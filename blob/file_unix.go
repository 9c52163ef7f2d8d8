//go:build linux || darwin

package blob

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow makes the opening of a symbolic link fail.
const noFollow = unix.O_NOFOLLOW

// duplicate opens an open file a second time. The file may have lost its name.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// idOf returns the id of an open file, and whether it still has a name.
func idOf(a Address, f *os.File) (id fileID, named bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileID{}, false, err
	}
	return fileIDOf(a, &st), st.Nlink > 0, nil
}

// idOfPath returns the id of the file at a path.
func idOfPath(a Address, path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fileID{}, err
	}
	return fileIDOf(a, &st), nil
}

func fileIDOf(a Address, st *unix.Stat_t) fileID {
	device := uint64(st.Dev) //nolint:unconvert // its type depends on the system
	return fileID{a, device, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// statfs returns the free bytes and all bytes of the file system of a directory.
func statfs(dir string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}
