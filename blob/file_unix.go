//go:build linux || darwin

package blob

import (
	"os"

	"golang.org/x/sys/unix"
)

// noFollow makes the opening of a symbolic link fail.
const noFollow = unix.O_NOFOLLOW

// fileID is the version of a file: it changes whenever the file changes, or another file takes its name.
type fileID struct {
	address       Address
	device, inode uint64
	size          int64
	mtime, ctime  int64 // unix ns
}

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
	device := uint64(st.Dev) //nolint:unconvert // its type depends on the system
	return fileID{a, device, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, st.Nlink > 0, nil
}
