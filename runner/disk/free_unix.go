//go:build linux || darwin

package disk

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free returns how many bytes of the disk of a directory are free for users.
func Free(dir string) (int64, error) {
	s, err := statfs(dir)
	return int64(min(s.Bavail, 1<<40)) * int64(s.Bsize), err
}

// Total returns how many bytes the disk of a directory has.
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
