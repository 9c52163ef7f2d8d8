package diskspace

import "golang.org/x/sys/unix"

// fallocate reserves space for a file.
func fallocate(fd int, mode uint32, offset, length int64) error {
	return unix.Fallocate(fd, mode, offset, length)
}
