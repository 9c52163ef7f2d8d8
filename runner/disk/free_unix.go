//go:build linux || darwin

package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free returns how many bytes users may still write to the disk that holds a directory.
func Free(dir string) (int64, error) {
	s, err := statfs(dir)
	return int64(min(s.Bavail, 1<<40)) * int64(s.Bsize), err
}

// Total returns the size in bytes of the disk that holds a directory.
func Total(dir string) (int64, error) {
	s, err := statfs(dir)
	return int64(min(s.Blocks, 1<<40)) * int64(s.Bsize), err
}

func statfs(dir string) (s unix.Statfs_t, err error) {
	if err := unix.Statfs(dir, &s); err != nil {
		return unix.Statfs_t{}, fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	return s, nil
}
